// Package waits finds the GPU work that calls waited for.
//
// In go the streams of a program with their work by start, which streams launches on a
// handle ran on, and the calls that wait. What a call waited for is the last work of
// its stream that was launched before the wait and ended by its end. The stream is
// known from one of two sources: CUPTI's Sync records, where the log has them, or the
// handle that the call names. Out comes the work, added to the call's slice.
package waits
