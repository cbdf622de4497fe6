// Package stats counts and measures what a timeline has: calls, kernels, copies, waits, memory
// and more.
//
// Input: the events of a timeline, through [Sink]. Output: a table for each report, through
// [Sink.Tables]. Memory is bounded whatever the length of the timeline: a report has at most
// [table.MaxRows] rows, and percentiles come from sketches of a fixed size.
package stats
