package findings

import (
	"fmt"

	"github.com/cudatrace/cudatrace/convert/internal/critical"
)

func (r *report) serialStreams() {
	if r.process.orders || !r.process.told {
		return // the program makes streams wait for each other, or the log does not tell
	}
	t := make(tally[string])
	all, byDefault := new(evidence), false
	for k, e := range r.process.serial.since(r.steady.From) {
		if k == (pair{}) {
			return // too many streams to tell
		}
		all.join(e)
		byDefault = byDefault || k.earlier.Default || k.later.Default
		name := fmt.Sprintf("stream %d behind stream %d", k.later.ID, k.earlier.ID)
		if t[name] == nil {
			t[name] = new(evidence)
		}
		t[name].join(e)
	}
	if !r.worth(all, LeastRepeats) {
		return
	}
	f := Finding{Without: (*critical.Without).TakingTurns,
		Title: "streams take turns though their work fits on the GPU together",
		Evidence: "work that was ready and waited: " + parts(t, 3) +
			"; no call makes a stream wait for another", Try: "look for a hidden order between the streams, such as too few " +
			"hardware queues (CUDA_DEVICE_MAX_CONNECTIONS)"}
	if byDefault {
		f.Try = "if the work is independent, create the streams with cudaStreamNonBlocking: work of the default stream and " +
			"of other streams waits for each other"
	}
	r.add("serial_streams", all, f)
}
