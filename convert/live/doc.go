// Package live counts what a program does, interval by interval, while its log grows.
//
// Input: the timeline of a log that is followed, as a [Sink]. Output: a [Report] for each interval
// of the recording, with figures of the interval and of everything so far: calls, launches, the
// busiest kernels, functions and Python lines, GPUs, copies, errors, losses.
//
// An interval is closed, and reported, when the timeline is known a second beyond its end: by then
// all that belongs to it has nearly always come. What comes later counts in the oldest interval that is
// open, so that the sums are right. Intervals are cut by the times in the log, so that the reports do
// not depend on when the log was read. Memory does not grow with the timeline.
package live
