// What all parts of the native twin use: the kernel, memory, data, streams, and the answer.
#pragma once
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
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

__global__ void pattern(Word *data, unsigned long long words, Word salt)
{
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride)
        data[i] = (Word)i * 2654435761u + salt;
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

static void verify(const char *data, size_t bytes, Word salt, Word added = 1)
{
    const size_t words = bytes / sizeof(Word), threads = 8, share = (words + threads - 1) / threads;
    std::vector<std::thread> team;
    for (size_t t = 0; t < threads; ++t)
        team.emplace_back([=] {
            for (size_t i = t * share; i < std::min(words, (t + 1) * share); ++i)
                if (((const Word *)data)[i] != (Word)i * 2654435761u + salt + added) {
                    std::fprintf(stderr, "word %zu is wrong\n", i);
                    std::_Exit(1);
                }
        });
    for (auto &thread : team) thread.join();
}

// Pinned data come from the device, as the runner's do: lines that the processor has just written are fetched from its caches by
// every copy, which takes up to twice as long.
static void fill_pinned(char *data, size_t bytes, Word salt)
{
    static char *scratch = nullptr;
    const size_t most = (size_t)256 << 20;
    if (!scratch) CHECK(cudaMalloc((void **)&scratch, most));
    for (size_t at = 0; at < bytes; at += most) {
        const size_t size = std::min(most, bytes - at);
        pattern<<<1024, 256>>>((Word *)scratch, size / sizeof(Word), (Word)(at / sizeof(Word)) * 2654435761u + salt);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(data + at, scratch, size, cudaMemcpyDeviceToHost));
    }
}

static void fill_device(char *data, size_t bytes, Word salt)
{
    pattern<<<1024, 256>>>((Word *)data, bytes / sizeof(Word), salt);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
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
