// Pipelines of one host thread: there, a kernel, and back, by wall time; every word is verified after every sample.
#pragma once
#include "common.cuh"

static void ring(const std::string &request, size_t total, size_t chunk, int slots, int samples)
{
    Streams streams(slots);
    char *input = map_pages(total), *output = map_pages(total);
    std::vector<char *> stager(slots), device(slots);
    std::vector<cudaEvent_t> done(slots);
    for (int s = 0; s < slots; ++s) {
        stager[s] = pin(chunk);
        CHECK(cudaMalloc((void **)&device[s], chunk));
        CHECK(cudaEventCreateWithFlags(&done[s], cudaEventDisableTiming));
    }
    const size_t chunks = (total + chunk - 1) / chunk;
    const auto size_of = [&](size_t c) { return std::min(chunk, total - c * chunk); };
    const auto retire = [&](size_t c) {
        CHECK(cudaEventSynchronize(done[c % slots]));
        std::memcpy(output + c * chunk, stager[c % slots], size_of(c));
    };
    for (int sample = -1; sample < samples; ++sample) {
        fill(input, total, (Word)sample);
        fill(output, total, 7);
        CHECK(cudaDeviceSynchronize());
        const auto begin = Clock::now();
        for (size_t c = 0; c < chunks; ++c) {
            const int s = (int)(c % slots);
            if (c >= (size_t)slots) retire(c - slots);
            std::memcpy(stager[s], input + c * chunk, size_of(c));
            CHECK(cudaMemcpyAsync(device[s], stager[s], size_of(c), cudaMemcpyHostToDevice, streams.all[s]));
            launch(device[s], size_of(c), streams.all[s]);
            CHECK(cudaMemcpyAsync(stager[s], device[s], size_of(c), cudaMemcpyDeviceToHost, streams.all[s]));
            CHECK(cudaEventRecord(done[s], streams.all[s]));
        }
        for (size_t c = chunks > (size_t)slots ? chunks - slots : 0; c < chunks; ++c) retire(c);
        for (auto stream : streams.all) CHECK(cudaStreamSynchronize(stream));
        const double ms = since_ms(begin);
        verify(output, total, (Word)sample);
        if (sample >= 0) answer(request, ms);
    }
    for (int s = 0; s < slots; ++s) {
        CHECK(cudaFreeHost(stager[s]));
        CHECK(cudaFree(device[s]));
        CHECK(cudaEventDestroy(done[s]));
    }
    munmap(input, total);
    munmap(output, total);
}

// All of the direct pipeline: pinned to pinned, chunk by chunk over the streams, each with its device buffer.
struct Direct {
    size_t total, chunk;
    Streams streams;
    char *input, *output;
    std::vector<char *> device;
    Direct(size_t total, size_t chunk, int count)
        : total(total), chunk(chunk), streams(count), input(pin(total)), output(pin(total)), device(count)
    {
        for (auto &buffer : device) CHECK(cudaMalloc((void **)&buffer, chunk));
    }
    ~Direct()
    {
        for (auto buffer : device) CHECK(cudaFree(buffer));
        CHECK(cudaFreeHost(input));
        CHECK(cudaFreeHost(output));
    }
    void prepare(Word salt)
    {
        fill_pinned(input, total, salt);
        fill_pinned(output, total, 7);
        CHECK(cudaDeviceSynchronize());
    }
    void issue()
    {
        for (size_t at = 0, c = 0; at < total; at += chunk, ++c) {
            const size_t s = c % device.size(), size = std::min(chunk, total - at);
            CHECK(cudaMemcpyAsync(device[s], input + at, size, cudaMemcpyHostToDevice, streams.all[s]));
            launch(device[s], size, streams.all[s]);
            CHECK(cudaMemcpyAsync(output + at, device[s], size, cudaMemcpyDeviceToHost, streams.all[s]));
        }
    }
};

static void direct(const std::string &request, size_t total, size_t chunk, int count, int samples)
{
    Direct work(total, chunk, count);
    for (int sample = -1; sample < samples; ++sample) {
        work.prepare((Word)sample);
        const auto begin = Clock::now();
        work.issue();
        for (auto stream : work.streams.all) CHECK(cudaStreamSynchronize(stream));
        const double ms = since_ms(begin);
        verify(work.output, total, (Word)sample);
        if (sample >= 0) answer(request, ms);
    }
}

// The same captured once: the other streams fork from the first by an event and join it by one each.
static cudaGraphExec_t capture(Direct &work)
{
    const auto &streams = work.streams.all;
    std::vector<cudaEvent_t> events(streams.size());
    for (auto &event : events) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
    CHECK(cudaEventRecord(events[0], streams[0]));
    for (size_t s = 1; s < streams.size(); ++s) CHECK(cudaStreamWaitEvent(streams[s], events[0], 0));
    work.issue();
    for (size_t s = 1; s < streams.size(); ++s) {
        CHECK(cudaEventRecord(events[s], streams[s]));
        CHECK(cudaStreamWaitEvent(streams[0], events[s], 0));
    }
    CHECK(cudaStreamEndCapture(streams[0], &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphUpload(ready, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
    CHECK(cudaGraphDestroy(graph));
    for (auto event : events) CHECK(cudaEventDestroy(event));
    return ready;
}

static void graph(const std::string &request, size_t total, size_t chunk, int count, int samples)
{
    Direct work(total, chunk, count);
    const auto ready = capture(work);
    for (int sample = -1; sample < samples; ++sample) {
        work.prepare((Word)sample);
        const auto begin = Clock::now();
        CHECK(cudaGraphLaunch(ready, work.streams.all[0]));
        CHECK(cudaStreamSynchronize(work.streams.all[0]));
        const double ms = since_ms(begin);
        verify(work.output, total, (Word)sample);
        if (sample >= 0) answer(request, ms);
    }
    CHECK(cudaGraphExecDestroy(ready));
}

static void serial(const std::string &request, size_t total, size_t chunk, int samples)
{
    Streams streams(1);
    const auto stream = streams.all[0];
    char *input = map_pages(total), *output = map_pages(total);
    for (int sample = -1; sample < samples; ++sample) {
        fill(input, total, (Word)sample);
        fill(output, total, 7);
        CHECK(cudaDeviceSynchronize());
        const auto begin = Clock::now();
        for (size_t at = 0; at < total; at += chunk) {
            const size_t size = std::min(chunk, total - at);
            char *device, *landing = map_pages(chunk);
            CHECK(cudaMalloc((void **)&device, chunk));
            CHECK(cudaMemcpyAsync(device, input + at, size, cudaMemcpyHostToDevice, stream));
            launch(device, size, stream);
            CHECK(cudaMemcpyAsync(landing, device, size, cudaMemcpyDeviceToHost, stream));
            CHECK(cudaStreamSynchronize(stream));
            std::memcpy(output + at, landing, size);
            CHECK(cudaFree(device));
            munmap(landing, chunk);
        }
        const double ms = since_ms(begin);
        verify(output, total, (Word)sample);
        if (sample >= 0) answer(request, ms);
    }
    munmap(input, total);
    munmap(output, total);
}
