// The native twin: what the same transfers and pipelines cost without Python, for benchmarks/gpu.py and benchmarks/peak.py.
//
//   nvcc -O3 -std=c++17 -arch=native -o native native.cu
//   printf 'ring 268435456 33554432 3 5\n' | ./native
//
// It reads one request a line and answers with one CSV line a sample: the request's words, then milliseconds, of `submit`
// microseconds a call.
//   copy h2d|d2h BYTES SAMPLES             a pinned copy between two events
//   peak h2d|d2h alone|beside BYTES SAMPLES  nvbandwidth's method: 16 pinned copies between two events, queued behind a gate after
//                                          4 that nobody times; beside: as many copies of twice the bytes go the other way
//   submit copy|launch|record COUNT SAMPLES  so many calls one after another, each copy of 4 KiB or kernel over them
//   ring TOTAL CHUNK SLOTS SAMPLES         pageable to pageable through pinned slots, one host lane, wall time
//   staged plain|stream TOTAL CHUNK THREADS SAMPLES  pageable to pageable by threads, each with its slot, plain or streaming
//                                          stores into the stager, streaming ones into the output, wall time
//   direct TOTAL CHUNK STREAMS SAMPLES     pinned to pinned, no host copy, wall time
//   graph TOTAL CHUNK STREAMS SAMPLES      the same captured once in a graph that each sample launches, wall time
//   serial TOTAL CHUNK SAMPLES             pageable to pageable, one chunk at a time, device buffer allocated per chunk, wall time
// All but `peak` get new data before every sample, and every word of their results is compared.
#include "calls.cuh"
#include "copies.cuh"
#include "pipelines.cuh"
#include "staged.cuh"

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
        else if (what == "graph" && words >> total >> chunk >> count >> samples)
            graph(line, total, chunk, count, samples);
        else if (what == "staged" && words >> direction >> total >> chunk >> count >> samples)
            staged(line, direction == "plain", total, chunk, count, samples);
        else if (what == "submit" && words >> direction >> count >> samples)
            submit(line, direction, count, samples);
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
