// Package waits finds the GPU work for which calls waited.
//
// The input is the streams of a program with their work by start, the streams on which launches
// with a handle ran, and the calls that wait. A call waited for the last work of its stream
// that was launched before the wait and ended by the end of the wait. Its stream comes from one
// of two sources: CUPTI's Sync records, where the log has them, or the handle that the call
// names. The work is added to the call's slice.
package waits
