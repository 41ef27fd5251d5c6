// What one call costs the host: many small operations in one stream that is empty before the first.
#pragma once
#include "common.cuh"

static void submit(const std::string &request, const std::string &operation, int count, int samples)
{
    const size_t size = 4096, total = size * count;
    Streams streams(1);
    const auto stream = streams.all[0];
    char *host = pin(total), *seen = pin(total), *device;
    CHECK(cudaMalloc((void **)&device, total));
    std::vector<cudaEvent_t> events(operation == "record" ? count : 0);
    for (auto &event : events) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    const bool copies = operation == "copy", launches = operation == "launch";
    for (int sample = -3; sample < samples; ++sample) {
        // Before and after as the runner does: new data, and each word compared, so that both meet caches in the same state.
        fill_pinned(host, total, (Word)sample);
        fill_device(device, total, copies ? 7 : (Word)sample);
        CHECK(cudaEventRecord(start, stream));
        const auto begin = Clock::now();
        if (copies)
            for (int n = 0; n < count; ++n)
                CHECK(cudaMemcpyAsync(device + n * size, host + n * size, size, cudaMemcpyHostToDevice, stream));
        else if (launches)
            for (int n = 0; n < count; ++n) launch(device, size, stream);
        else
            for (auto event : events) CHECK(cudaEventRecord(event, stream));
        const double ms = since_ms(begin);
        CHECK(cudaEventRecord(stop, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(seen, device, total, cudaMemcpyDeviceToHost));
        verify(seen, launches ? size : total, (Word)sample, launches ? (Word)count : 0);
        if (sample >= 0) answer(request, ms * 1e3 / count);
    }
    for (auto event : events) CHECK(cudaEventDestroy(event));
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(host));
    CHECK(cudaFreeHost(seen));
}
