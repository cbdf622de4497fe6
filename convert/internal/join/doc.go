// Package join joins the records of a log into a timeline: call stacks per thread, GPU work per
// stream, and the link from each call to the work that it caused or waited for; NVTX ranges,
// memory and samples of metrics beside them.
//
// Input: the log's complete [read.Catalog], and the log once more, through [read.Readers].
// Output: calls, GPU work and other events, to a pipeline.
//
// A log has three records of a launch: the uprobe pair (thread, entry and return time,
// arguments), the CUPTI API record (thread, time, correlation ID) and the activity record of
// the GPU work (correlation ID, no thread). The pair and the API record belong together when
// they are on one thread and one interval contains the other; the correlation ID then leads to
// the work.
//
// The calls of a thread are stacked up to the watermark: the earliest time that a later block may
// still contain. Calls and work stay in a window until they are joined. Then they are shown: the
// pipeline gets them. Only this window is in memory, whatever the size of the log.
package join
