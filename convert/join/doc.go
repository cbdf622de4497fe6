// Package join joins the records of a log into a timeline: call stacks per thread, GPU work per
// stream, and the link from each call to the work that it caused.
//
// A log has three records of a launch: the uprobe pair (thread, entry and return time,
// arguments), the CUPTI API record (thread, time, correlation ID) and the activity record of
// the GPU work (correlation ID, no thread). The pair and the API record belong together when
// they are on one thread and one interval contains the other; the correlation ID then leads to
// the work.
//
// The input is the log's complete [catalog.Catalog], and the log once more through package
// merge. The calls of a thread are stacked up to the time to which later blocks may reach back.
// A window holds calls and work until they are joined; then they are shown, that is, handed to
// a pipeline. Only this window is in memory, whatever the size of the log. Packages waits,
// spans and memory join the records that are neither calls nor work.
package join
