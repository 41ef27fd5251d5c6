// The fastest native way from pageable to pageable: threads of the host, each with a slot of its own.
#pragma once
#include "common.cuh"

#include <atomic>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

// Streaming stores leave out the reading of the lines that are written, and keep what nobody reads soon out of the caches.
static void stream_copy(char *to, const char *from, size_t bytes)
{
#if defined(__x86_64__)
    size_t at = 0;
    if (((size_t)to & 15) == 0)
        for (; at + 64 <= bytes; at += 64) {
            const __m128i *source = (const __m128i *)(from + at);
            __m128i *target = (__m128i *)(to + at);
            const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
            const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
            _mm_stream_si128(target, a);
            _mm_stream_si128(target + 1, b);
            _mm_stream_si128(target + 2, c);
            _mm_stream_si128(target + 3, d);
        }
    _mm_sfence();
    std::memcpy(to + at, from + at, bytes - at);
#else
    std::memcpy(to, from, bytes);
#endif
}

// One thread's slot: its stream, its stager and its device buffer, and every so-many-th chunk of the data. Plain stores into the
// stager leave it in the caches, from where the copy engine takes it.
struct Slot {
    Streams streams;
    bool plain;
    char *stager, *device;
    Slot(size_t chunk, bool plain) : streams(1), plain(plain), stager(pin(chunk))
    {
        CHECK(cudaMalloc((void **)&device, chunk));
    }
    ~Slot()
    {
        CHECK(cudaFreeHost(stager));
        CHECK(cudaFree(device));
    }
    void work(const char *input, char *output, size_t first, size_t step, size_t chunk, size_t total)
    {
        const auto stream = streams.all[0];
        for (size_t at = first * chunk; at < total; at += step * chunk) {
            const size_t size = std::min(chunk, total - at);
            plain ? (void)std::memcpy(stager, input + at, size) : stream_copy(stager, input + at, size);
            CHECK(cudaMemcpyAsync(device, stager, size, cudaMemcpyHostToDevice, stream));
            launch(device, size, stream);
            CHECK(cudaMemcpyAsync(stager, device, size, cudaMemcpyDeviceToHost, stream));
            CHECK(cudaStreamSynchronize(stream));
            stream_copy(output + at, stager, size);
        }
    }
};

// Threads that are there before the clock starts; this one is the first of them, so that none waits on a core that another needs.
static void staged(const std::string &request, bool plain, size_t total, size_t chunk, int threads, int samples)
{
    char *input = map_pages(total), *output = map_pages(total);
    std::vector<std::unique_ptr<Slot>> slots;
    for (int t = 0; t < threads; ++t) slots.push_back(std::make_unique<Slot>(chunk, plain));
    const auto work = [&](int t) { slots[t]->work(input, output, (size_t)t, (size_t)threads, chunk, total); };
    for (int sample = -1; sample < samples; ++sample) {
        fill(input, total, (Word)sample);
        fill(output, total, 7);
        CHECK(cudaDeviceSynchronize());
        std::atomic<int> ready{1}, done{0};
        std::atomic<bool> go{false};
        std::vector<std::thread> team;
        for (int t = 1; t < threads; ++t)
            team.emplace_back([&, t] {
                CHECK(cudaSetDevice(0));
                ++ready;
                while (!go.load(std::memory_order_acquire)) {}
                work(t);
                ++done;
            });
        while (ready.load() < threads) {}
        const auto begin = Clock::now();
        go.store(true, std::memory_order_release);
        work(0);
        while (done.load() < threads - 1) {}
        const double ms = since_ms(begin);
        for (auto &thread : team) thread.join();
        verify(output, total, (Word)sample);
        if (sample >= 0) answer(request, ms);
    }
    munmap(input, total);
    munmap(output, total);
}
