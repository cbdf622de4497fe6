// Package convert makes timelines, traces and summaries of logs.
//
// In go one or more logs. Out comes, through [Timeline], a timeline for any sink, and for
// each log a [Summary]. [Files] makes a Perfetto trace of it.
//
// A log is read twice. The first reading (package catalog) takes what is small and notes
// how far back blocks reach. The second goes through the events in the order of time
// (merge), joins them (join, with waits, spans and memory) and hands them on (pipeline)
// to the sink, which makes the view (pfsink) and writes it (output). Only the first
// reading's catalog and a window of events are in memory, whatever the size of the log.
package convert
