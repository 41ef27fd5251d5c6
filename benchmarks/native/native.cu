// The native twin: what the same transfers and pipelines cost without Python, for benchmarks/gpu.py and benchmarks/peak.py.
//
//   nvcc -O3 -arch=native -o native native.cu
//   printf 'ring 268435456 33554432 3 5\n' | ./native
//
// It reads one request a line and answers with one CSV line a sample: the request's words, then milliseconds.
//   copy h2d|d2h BYTES SAMPLES             a pinned copy between two events
//   peak h2d|d2h alone|beside BYTES SAMPLES  nvbandwidth's method: 16 pinned copies between two events, queued behind a gate after
//                                          4 that nobody times; beside: as many copies of twice the bytes go the other way
//   ring TOTAL CHUNK SLOTS SAMPLES         pageable to pageable through pinned slots, one host lane, wall time
//   direct TOTAL CHUNK STREAMS SAMPLES     pinned to pinned, no host copy, wall time
//   serial TOTAL CHUNK SAMPLES             pageable to pageable, one chunk at a time, device buffer allocated per chunk, wall time
// The data of pipelines are written before every sample; those of plain copies once, so that the copy meets clean memory.
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using Word = unsigned;
using Clock = std::chrono::steady_clock;

static void check(cudaError_t status, const char *call)
{
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "%s failed: %s\n", call, cudaGetErrorString(status));
    std::exit(1);
}
#define CHECK(call) check(call, #call)

__global__ void increment(Word *data, unsigned long long words)
{
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride) data[i] += 1u;
}

static void launch(void *data, size_t bytes, cudaStream_t stream)
{
    static int processors = 0;
    if (!processors) CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    const size_t words = bytes / sizeof(Word);
    const unsigned blocks = (unsigned)std::max<size_t>(1, std::min<size_t>((words + 255) / 256, (size_t)processors * 8));
    increment<<<blocks, 256, 0, stream>>>((Word *)data, words);
}

// Pages of its own, without advice about huge ones, as the runner maps pageable memory.
static char *map_pages(size_t bytes)
{
    void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) check(cudaErrorMemoryAllocation, "mmap");
    return (char *)pages;
}

static char *pin(size_t bytes)
{
    void *pages;
    CHECK(cudaMallocHost(&pages, bytes));
    return (char *)pages;
}

static void fill(char *data, size_t bytes, Word salt)
{
    const size_t words = bytes / sizeof(Word), threads = 8, share = (words + threads - 1) / threads;
    std::vector<std::thread> team;
    for (size_t t = 0; t < threads; ++t)
        team.emplace_back([=] {
            for (size_t i = t * share; i < std::min(words, (t + 1) * share); ++i) ((Word *)data)[i] = (Word)i * 2654435761u + salt;
        });
    for (auto &thread : team) thread.join();
}

static void verify(const char *data, size_t bytes, Word salt)
{
    for (size_t i = 0; i < bytes / sizeof(Word); ++i)
        if (((const Word *)data)[i] != (Word)i * 2654435761u + salt + 1u) {
            std::fprintf(stderr, "word %zu is wrong\n", i);
            std::exit(1);
        }
}

static double since_ms(Clock::time_point begin) { return std::chrono::duration<double, std::milli>(Clock::now() - begin).count(); }

static void answer(const std::string &request, double ms)
{
    std::printf("%s,%.6f\n", request.c_str(), ms);
}

struct Streams {
    std::vector<cudaStream_t> all;
    explicit Streams(int count) : all(count)
    {
        for (auto &stream : all) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    ~Streams()
    {
        for (auto stream : all) CHECK(cudaStreamDestroy(stream));
    }
};

static void copy(const std::string &request, const std::string &direction, size_t bytes, int samples)
{
    Streams streams(1);
    char *host = pin(bytes), *device;
    cudaEvent_t begin, end;
    CHECK(cudaMalloc((void **)&device, bytes));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    const bool up = direction == "h2d";
    // Once: lines that the processor has just written are fetched from its caches by every copy, which takes up to twice as long.
    fill(host, bytes, 1);
    CHECK(cudaDeviceSynchronize());
    for (int sample = -3; sample < samples; ++sample) {
        CHECK(cudaEventRecord(begin, streams.all[0]));
        CHECK(cudaMemcpyAsync(up ? device : host, up ? host : device, bytes, up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                              streams.all[0]));
        CHECK(cudaEventRecord(end, streams.all[0]));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (sample >= 0) answer(request, ms);
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(host));
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
        fill(host, bytes, 1);
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

static void direct(const std::string &request, size_t total, size_t chunk, int count, int samples)
{
    Streams streams(count);
    char *input = pin(total), *output = pin(total);
    std::vector<char *> device(count);
    for (auto &buffer : device) CHECK(cudaMalloc((void **)&buffer, chunk));
    for (int sample = -1; sample < samples; ++sample) {
        fill(input, total, (Word)sample);
        fill(output, total, 7);
        CHECK(cudaDeviceSynchronize());
        const auto begin = Clock::now();
        for (size_t at = 0, c = 0; at < total; at += chunk, ++c) {
            const size_t s = c % count, size = std::min(chunk, total - at);
            CHECK(cudaMemcpyAsync(device[s], input + at, size, cudaMemcpyHostToDevice, streams.all[s]));
            launch(device[s], size, streams.all[s]);
            CHECK(cudaMemcpyAsync(output + at, device[s], size, cudaMemcpyDeviceToHost, streams.all[s]));
        }
        for (auto stream : streams.all) CHECK(cudaStreamSynchronize(stream));
        const double ms = since_ms(begin);
        verify(output, total, (Word)sample);
        if (sample >= 0) answer(request, ms);
    }
    for (auto buffer : device) CHECK(cudaFree(buffer));
    CHECK(cudaFreeHost(input));
    CHECK(cudaFreeHost(output));
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

int main()
{
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string what, direction, company;
        size_t total = 0, chunk = 0;
        int count = 0, samples = 0;
        words >> what;
        if (what == "copy" && words >> direction >> total >> samples)
            copy(line, direction, total, samples);
        else if (what == "peak" && words >> direction >> company >> total >> samples)
            peak(line, direction, company == "beside", total, samples);
        else if (what == "ring" && words >> total >> chunk >> count >> samples)
            ring(line, total, chunk, count, samples);
        else if (what == "direct" && words >> total >> chunk >> count >> samples)
            direct(line, total, chunk, count, samples);
        else if (what == "serial" && words >> total >> chunk >> samples)
            serial(line, total, chunk, samples);
        else {
            std::fprintf(stderr, "not a request: %s\n", line.c_str());
            return 2;
        }
        std::printf("end\n");
        std::fflush(stdout);
    }
    return 0;
}
