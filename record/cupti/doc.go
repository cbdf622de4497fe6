// Package cupti records what CUPTI knows of a process: its GPU work, its API records, NVTX. It
// is two things: a C library, injected into every process that initialises CUDA, and a server
// in the recorder. Processes report to the server; records go to a [Sink].
//
//	driver, in cuInit ── loads ──► injected library ── private socket ──► Server
//	                                     │                                  │
//	                                 libcupti                             Sink
//
// The driver loads the library named by CUDA_INJECTION64_PATH, which [Server.Environ] sets.
// The library says hello and waits, at most 2 s, for the answer of [Handler.Hello]; probes are
// attached meanwhile. Then it finds libcupti, switches records on, and sends them until the
// process ends.
//
// NVTX loads the same library, named by NVTX_INJECTION64_PATH; the library passes NVTX's
// functions on to libcupti. [Server.Pause] and [Server.Resume] switch records off and on in all
// processes; with GoConfig.CaptureRange each process switches them where it calls
// cudaProfilerStart and cudaProfilerStop. Another CUPTI client in a process takes the records
// over: after [Server.Foreign], or by itself, the library leaves CUPTI to that client.
//
// A process that ends without exit handlers hands over its records first: on signals for which
// the program has no handler, in quick_exit, and when a thread gets the exit signal, which a
// probe sends on the way into _exit and exec (see [ExitWatcher]). Of a process that was killed,
// the records up to its end's Until are there.
//
// The folder inject holds the library's source; the built library is embedded here. The file
// inject/wire.h describes the messages. A peer is a stranger's process: whatever it sends is
// checked, and at worst ends its connection.
package cupti
