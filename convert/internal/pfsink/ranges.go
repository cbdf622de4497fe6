package pfsink

import (
	"cmp"
	"fmt"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// rangesName names the track of a thread's NVTX ranges on a stream: the stream, and the thread
// unless it is the main one. Perfetto shows GPU work on tracks that take no other slices, so the
// ranges have a track of the process.
func rangesName(t *timeline.Track) string {
	name := t.Title() + " on " + streamOfGPU(t.Stream)
	if t.Thread != nil && !t.Thread.Main {
		name += fmt.Sprintf(" · %s %d", cmp.Or(t.Thread.Name, "thread"), t.Thread.TID)
	}
	return name
}

// streamOfGPU names a stream beside those of other GPUs.
func streamOfGPU(of *timeline.Stream) string {
	if c := of.Context; c.GPU != 0 {
		return fmt.Sprintf("%s of GPU %d", streamName(of), c.GPU)
	}
	return streamName(of)
}
