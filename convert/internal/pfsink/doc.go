// Package pfsink makes Perfetto traces from timelines.
//
// The input is the events of a timeline. The output is a trace in Perfetto's protobuf format:
// the calls of each thread on its track, GPU work on the hardware queue of its stream, an arrow
// from a call to its work and from work to the call that waited for it, and spans and counters
// on tracks beside these.
package pfsink
