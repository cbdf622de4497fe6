// Package cupti records what CUPTI knows of a process. It has two halves. The first is a C
// library, injected into every process that initialises CUDA. The second is the recorder's
// server, to which the library reports.
//
//	driver, in cuInit ── loads ──► injected library ── shared memory ──► Server
//	                                     │                               │    │
//	                                 libcupti                         Sink    Handler
//
// Input: messages from processes, and orders of the recorder to processes. Output: records of
// package tracelog, to a [Sink], and the events of each process (its hello, notes for a person,
// its end), to a [Handler].
//
// # The life of a recorded process
//
// The driver loads the library named by CUDA_INJECTION64_PATH, which [Server.Environ] sets. The
// library says hello and waits for the answer of [Handler.Hello], for 2 s from each sign of the recorder and at
// most 10 s; meanwhile the recorder attaches probes. The library then finds libcupti, switches records on, and sends
// them until the process ends. [Server.Pause] and [Server.Resume] switch records off and on in
// all processes. With GoConfig.CaptureRange each process switches them itself, where it calls
// cudaProfilerStart and cudaProfilerStop. Where CUPTI does not tell who calls, it sees these calls by a CUPTI
// subscription: a process has one, and the program's own profiler may want it. NVTX loads the same library by
// NVTX_INJECTION64_PATH, and the library passes NVTX's functions on to libcupti.
//
// A process that 'cudatrace run --armed' started sleeps on a page beside the library instead. It says its hello when a
// recorder rings there; [Join] serves it. It has long started CUDA by then: [GoConfig].Late. When the recording has
// ended, it sleeps again, until the next recorder.
//
// Another CUPTI client in a process takes over the process's records. Either
// [Server.OtherClient] or the library itself notices it, and the library leaves CUPTI to the other client.
//
// Some ends run no exit handlers. Before such an end the library hands over the records that it
// has: on signals for which the program has no handler, in quick_exit, and when a thread gets
// the exit signal that [Listener.WatchExit] was told of. A probe sends that signal on the way into
// _exit and exec. Of a process that was killed, everything up to the time Until of its end has
// arrived.
//
// With GoConfig.Callers the library also finds the return addresses above each call of the driver.
// [Listener.FindCaller] turns them into caller records. The runtime's functions need no API records
// then, which are what costs a program most. Where CUPTI does not tell who calls, they have records
// as usual; where that shows later only, calls keep the names of the driver's functions.
//
// A call makes its record when it returns. The call in which a process was killed, or hangs, has none. So each thread
// notes the call that it is in, in the shared memory. The server looks there: a call that has not returned for a second
// is logged as a tracelog.OpenCall, and at the end those that have not returned, with tracelog.CallUnfinished.
//
// # Where things are
//
// The library is in the folder inject, whose README.md is the guide through its files; its built form is
// embedded here. inject/wire.h describes the messages; the structs of the records in them, inject/wire_records.h, and
// their decoding come from the tables of package tracelog/schema. The process and the server meet over a private
// socket and go on in memory that both map. A peer is a process that
// we do not trust: everything that it sends is checked, and the worst outcome is that its
// connection ends.
//
//	server.go        the Server: what all processes are told, and the set of them; programs that wait for a recorder
//	handler.go       who is told of processes
//	link.go          the connection to one process: a socket, then memory
//	sharedmemory.go  that memory, and the thread that notices what is written to it
//	peer.go          the messages of one process, from its hello to its end
//	armed.go         processes that wait for a recorder: finding and calling them
//	config.go        what a process is told to record; locate.go: the CUPTI libraries that it could load
//	wire.go          messages; wire_gen.go: the numbers of inject/wire.h
//	batch.go         batches of records, with the names and callers to which they refer; records_gen.go: the kinds of record
//	opencalls.go     calls that have not returned
//
// The Server's folder and socket are package privatefolder's, with the page on which a program waits.
//
// CONTRIBUTING.md lists what a new kind of record touches.
package cupti
