// Package join joins the records of a log into a timeline: call stacks per thread, GPU
// work per stream, and the link from each call to the work that it caused.
//
// A log holds three things about a launch: the uprobe pair (thread, entry and return
// time, arguments), the CUPTI API record (thread, time, correlation ID) and the activity
// record of the GPU work (correlation ID, no thread). The pair and the API record belong
// together when they are on one thread and one interval holds the other; the correlation
// ID then names the work.
//
// In go the log's [catalog.Catalog], complete, and the log once more, through package
// merge. A thread's calls are stacked as far as no block to come reaches back, joined
// through a window of calls and work that still miss each other, and handed to a
// pipeline. What is in memory is that window, whatever the size of the log. Packages
// waits, spans and memory join what is neither a call nor work.
package join
