// Package pfsink makes Perfetto traces of timelines.
//
// In go the events of a timeline. Out comes a trace in Perfetto's protobuf format: the
// calls of each thread on its track, GPU work on the hardware queue of its stream, an
// arrow from a call to its work and from work to the call that waited for it, spans and
// counters on tracks beside these.
package pfsink
