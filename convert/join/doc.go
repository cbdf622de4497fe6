// Package join joins the records of a log into a timeline: call stacks per thread, GPU
// work per stream, and the link from each call to the work that it caused.
//
// A log holds three things about a launch: the uprobe pair (thread, entry and return
// time, arguments), the CUPTI API record (thread, time, correlation ID) and the activity
// record of the GPU work (correlation ID, no thread). The pair and the API record belong
// together when they are on one thread and one interval holds the other; the correlation
// ID then names the work.
//
// In go the log's complete [catalog.Catalog] and, through package merge, the log once
// more. Out come the events of a timeline, to a pipeline. Calls and work that still miss
// each other wait in a window; only that window is in memory, whatever the size of the
// log. Packages waits, spans and memory join what is neither a call nor work.
package join
