// Package convert makes timelines, traces and summaries from logs.
//
// The input is one or more logs. The output is a timeline for any sink, through [Timeline], and
// a [Summary] of each log. [Files] makes a Perfetto trace.
//
// A log is read twice (package read). The first reading collects names and other small facts,
// and notes how far back in time blocks reach. The second reading goes through the events in
// the order of time. Package join joins the events and hands them on (pipeline) to the sink,
// which makes the view (pfsink) and writes it (output). Only the catalog and a window of events
// are in memory, whatever the size of the log.
package convert
