// Package cupti records what CUPTI knows of a process: a C library that is
// injected into every process which initialises CUDA, and the server in the
// recorder that it reports to.
//
//	driver, in cuInit ── loads ──► injected library ── private socket ──► Server
//	                                     │                                  │
//	                                 libcupti                             Sink
//
// The driver loads the library named by CUDA_INJECTION64_PATH, which
// [Server.Environ] sets. The library says hello and waits, at most 2 s, for the
// answer of [Handler.Hello]; probes are attached meanwhile. It then finds
// libcupti, switches records on, and sends them until the process ends.
//
// NVTX loads the same library, by NVTX_INJECTION64_PATH, which passes NVTX's
// functions on to libcupti. [Server.Pause] and [Server.Resume] switch records off
// and on in all processes, GoConfig.CaptureRange has each process do so where it
// calls cudaProfilerStart and cudaProfilerStop. Another CUPTI client in a process
// takes its records over: [Server.Foreign] then, or the library itself, leaves
// CUPTI to it.
//
// Before an end that runs no exit handlers the library hands over what is recorded:
// on signals for which the program has no handler, in quick_exit, and when a thread
// gets the exit signal that [ExitWatcher] is told of, which a probe sends on the way
// into _exit and exec. Of a process that was killed all is there up to Until in its
// end.
//
// The library is in the folder inject, its built form is embedded here, and
// inject/wire.h describes what goes over the socket. A peer is a stranger's
// process: whatever it sends is checked, and at worst ends its connection.
package cupti
