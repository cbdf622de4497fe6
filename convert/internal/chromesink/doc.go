// Package chromesink makes Chrome JSON traces from timelines, as Kineto, PyTorch's profiler, writes
// them, so that the tools around it read them.
//
// The input is the events of a timeline. The output is one JSON object for each process that has
// events: calls and GPU work are complete events (X) with Kineto's categories and arguments,
// arrows from calls to their work are flows (ac2g). docs/chrome.md has what Kineto writes beside
// what is written here.
//
// Readers drop a complete event that overlaps another one on the same thread, so events that
// overlap without nesting get threads of their own (type row).
package chromesink
