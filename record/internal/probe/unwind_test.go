package probe

import (
	"testing"

	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A program may leave a call that is recorded by an exception, by longjmp or by the end of its thread, look at its
// frames, or go on on another stack. All that works as without a recorder, also beside another recording of the same files.
func TestUnwind(t *testing.T) {
	options := Options{mode: modeMulti, Functions: cudaapi.Functions(cudaapi.Default)}
	p, program := open(t, options), startTarget(t, "unwind")
	attach(t, p, program)
	attach(t, open(t, options), startTarget(t, "unwind"))
	for _, of := range []struct{ scenario, want string }{
		{"exception", "5"}, {"longjmp", "7"}, {"backtrace", "1"}, {"cancel", "111"}, {"context", "11"},
		{"exception", "5"}, {"backtrace", "1"},
	} {
		if got := program.run(of.scenario, 0); got != of.want {
			t.Errorf("%s gives %s, not %s", of.scenario, got, of.want)
		}
	}
	all := finish(t, p)
	n, ended := len(all.named("cuStreamSynchronize")), all.count("cuStreamSynchronize", 0)
	if n != 7 || ended != 2 && ended != 3 { // whether that on another stack has its end is open
		t.Errorf("%d calls are recorded, %d with their ends", n, ended)
	}
}
