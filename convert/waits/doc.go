// Package waits finds the GPU work for which calls waited.
//
// Input: the streams of a program with their work by start, the stream handles that launches
// named with the streams on which their work ran, and the calls that wait. Output: each such
// call's slice with the work for which the call waited: the last work of its stream that was
// launched before the wait and had ended by the end of the wait. The stream comes from CUPTI's
// Sync records, where the log has them, or else from the handle that the call names.
package waits
