/*
Package perfetto writes traces in Perfetto's protobuf format. https://ui.perfetto.dev shows
them.

Descriptions and events go in; a stream of TracePackets comes out:

	Process, Thread, Track, Counter   TrackDescriptor (and ProcessTree)
	GPUs                              GpuInfo
	Queue, Kernel                     InternedData: a hardware queue, a compute kernel
	Track.Begin, End, Instant         TrackEvent: a call, a range, a mark
	Counter.Value                     TrackEvent: an amount of memory
	Queue.Event                       GpuRenderStageEvent: a kernel, a copy, a memset, a graph

A slice names the GPU work that it submitted and the GPU work that it waited for. The UI
draws an arrow for each.

Events are written with templates. A [TrackEventTemplate] or a [RenderStageTemplate] holds
the fields that many events share, encoded once. An event adds its time, its ids, and the
arguments that differ from event to event.

A [Writer] streams. It keeps names in memory, and up to 32 MiB of packets. The events of
several tracks and queues may come in any order. Within a track or a queue, times should
not decrease: where they do, the trace is right but larger.

Each track and each queue writes to packet sequences of its own. A sequence begins with
incremental state that is cleared, interns the names that its events refer to, and has a
clock in which each timestamp is the distance from the previous one.

Times are nanoseconds of CLOCK_MONOTONIC, durations are nanoseconds.
*/
package perfetto
