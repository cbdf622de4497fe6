// Package critical finds the critical path of a part of a timeline: the chain of work and waits that made it as long as
// it was. It also tells what the program would save without a cause of lost time: [Replay].
//
// Input: the calls of threads and the GPU work of streams, all of them before the first path is wanted. Output:
// [Collector.Path] goes backwards from a moment, and gives the path as [Segment] values that lie end to end, the latest
// one first. From one segment the path goes on to the one that the log proves to have come before it ([Edge]): work
// waited for the work before it in its stream, or for the call that launched it; a call waited for work; a thread did
// one thing after the other, or waited for what another thread had. Time of which the log does not tell is a segment of
// its own kind, [Unknown].
//
// A [Replay] has the same edges as a graph of moments. It is linear in time and memory, for each cause that is taken
// away.
//
// Memory is bounded: of a program with more calls and work than that the first are kept, and [Collector.Until] says up
// to which time.
package critical
