// Plain copies between two events, one by one and behind a gate.
#pragma once
#include "common.cuh"

static void copy(const std::string &request, const std::string &direction, size_t bytes, int samples)
{
    Streams streams(1);
    char *host = pin(bytes), *seen = pin(bytes), *device;
    cudaEvent_t begin, end;
    CHECK(cudaMalloc((void **)&device, bytes));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    const bool up = direction == "h2d";
    for (int sample = -3; sample < samples; ++sample) {
        // Before and after as the runner does: new data, and each word compared, so that both meet caches in the same state.
        fill_pinned(host, bytes, up ? (Word)sample : 7);
        fill_device(device, bytes, up ? 7 : (Word)sample);
        CHECK(cudaEventRecord(begin, streams.all[0]));
        CHECK(cudaMemcpyAsync(up ? device : host, up ? host : device, bytes, up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                              streams.all[0]));
        CHECK(cudaEventRecord(end, streams.all[0]));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (up) CHECK(cudaMemcpy(seen, device, bytes, cudaMemcpyDeviceToHost));
        verify(up ? seen : host, bytes, (Word)sample, 0);
        if (sample >= 0) answer(request, ms);
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(host));
    CHECK(cudaFreeHost(seen));
}

__global__ void hold(volatile Word *open)
{
    const long long begin = clock64();
    while (*open == 0u && clock64() - begin < 8000000000ll) {}
}

// A word of host memory that a kernel looks at until the host writes it.
struct Gate {
    Word *flag, *seen;
    Gate()
    {
        CHECK(cudaHostAlloc((void **)&flag, sizeof(Word), cudaHostAllocMapped));
        CHECK(cudaHostGetDevicePointer((void **)&seen, flag, 0));
    }
    ~Gate() { CHECK(cudaFreeHost(flag)); }
    void shut(cudaStream_t stream)
    {
        *flag = 0;
        hold<<<1, 1, 0, stream>>>(seen);
        CHECK(cudaGetLastError());
    }
    void open() { *(volatile Word *)flag = 1; }
};

// One direction of `peak`: pinned memory here, memory there, and copies of all of it in a stream.
struct Way {
    bool up;
    size_t bytes;
    char *host, *device;
    Way(bool up, size_t bytes) : up(up), bytes(bytes), host(pin(bytes))
    {
        CHECK(cudaMalloc((void **)&device, bytes));
        fill_pinned(host, bytes, 1);
        CHECK(cudaMemset(device, 1, bytes));
    }
    ~Way()
    {
        CHECK(cudaFree(device));
        CHECK(cudaFreeHost(host));
    }
    void copy(cudaStream_t stream, int times)
    {
        for (int n = 0; n < times; ++n)
            CHECK(cudaMemcpyAsync(up ? device : host, up ? host : device, bytes,
                                  up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream));
    }
};

static void peak(const std::string &request, const std::string &direction, bool beside, size_t bytes, int samples)
{
    const int untimed = 4, timed = 16;
    Streams streams(2);
    Gate gate;
    Way way(direction == "h2d", bytes), other(direction != "h2d", beside ? 2 * bytes : sizeof(Word));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaDeviceSynchronize());
    for (int sample = 0; sample < samples; ++sample) {
        way.copy(streams.all[0], untimed);
        if (beside) other.copy(streams.all[1], untimed);
        CHECK(cudaDeviceSynchronize());
        gate.shut(streams.all[0]);
        CHECK(cudaEventRecord(begin, streams.all[0]));
        CHECK(cudaStreamWaitEvent(streams.all[1], begin, 0));
        way.copy(streams.all[0], timed);
        CHECK(cudaEventRecord(end, streams.all[0]));
        if (beside) other.copy(streams.all[1], timed);
        gate.open();
        CHECK(cudaDeviceSynchronize());
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        answer(request, ms / timed);
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
}
