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
// pipeline gets them. Only this window is in memory, whatever the size of the log: see [Budget].
//
// # Stages
//
// [Joiner.Take] sorts the records of a block by thread, stream or kind. Joiner.step goes on to a time:
//
//  1. NVTX markers become ranges, so that calls know the ranges around them (events.takeMarkers)
//  2. the records of each thread become a stack of calls (threads.advance)
//  3. calls that were captured into a graph are given to their capture (Joiner.settleCaptures)
//  4. the work of each stream meets its call, or waits for it (Joiner.readWork, Joiner.mark)
//  5. calls that wait are joined with the work that they waited for (waitJoiner.joinUntil)
//  6. memory, samples, functions and ranges are shown (events.advance)
//  7. work and calls are shown, as far as nothing is missing (Joiner.emit)
//
// # Where
//
//   - a record becomes a call, or part of one: stack.join
//   - a kernel meets its call: workJoiner.joinWork where the call was first, workJoiner.register where the work was
//   - work in the body of a graph meets its launch: graphs.launch
//   - the node of a graph meets the call that it was captured from: captures.name
//   - a call meets what it waited for: waitJoiner.join
//   - a call ends: stack.close; a range: nvtxRanges.end; any span on its track: lane.endUntil
//   - a Python function or an operator of PyTorch ends: seenSpans.endFrom
//   - memory is counted: memoryUsage.advance, from stack.memoryCall and events.allocation
//   - PyTorch's memory is counted: torchMemory.emit
//   - a row is shown early since too many wait: Bound.over
//
// # Files
//
// In the order of reading. A file uses what is in it and in the files below it.
//
//   - join.go: the door, and the order of the stages
//   - collectives.go: the collectives of NCCL, read straight from the logs of several ranks
//   - events.go: the records that are neither calls nor work
//   - calls.go: the calls of threads
//   - work.go: the work of streams, and its calls
//   - seen.go: Python functions and PyTorch's operators, as the stacks of calls show them
//   - functions.go: functions that were probed, on the tracks of threads
//   - samples.go: samples of metrics, states and samples of threads
//   - torchmemory.go: the blocks of PyTorch's allocators
//   - operators.go: PyTorch's operators with their own times
//   - program.go: what is known of a program
//   - memory.go: live memory and memory pools
//   - captures.go: the calls that graph nodes were captured from
//   - graphs.go: the launches of work in the bodies of graphs
//   - correlation.go: calls and work that wait for each other, by correlation ID
//   - waits.go: what calls waited for
//   - projections.go: NVTX ranges on the streams where their work ran
//   - ranges.go: NVTX ranges of threads, and groups of NCCL's calls
//   - tracks.go: spans on tracks
//   - found.go: what is counted
//   - held.go: what is held back: the budget, lists and queues
package join
