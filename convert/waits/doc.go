// Package waits finds the GPU work that calls waited for.
//
// In go the streams of a program with their work by start, the stream behind each stream
// handle, and the calls that wait. Out comes the work that each call waited for, added to
// the call's slice: the last work of its stream that was launched before the wait and
// had ended when the wait ended. The stream is known from one of two sources: CUPTI's Sync
// records, where the log has them, or the handle that the call names.
package waits
