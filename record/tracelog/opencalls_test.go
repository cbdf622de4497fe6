package tracelog

import (
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// A log may say of one thread that it is in any number of calls: a few are kept, the newest ones, so that each record of a call is
// compared with a few.
func TestOpenCallsOfOneThread(t *testing.T) {
	t.Parallel()
	const many = 1000
	var o OpenCalls
	w, out := newTestWriter(t, Options{})
	for i := range uint64(many) {
		w.Add(&OpenCall{PID: 1, TID: 2, Func: 3, Enter: i, Dur: 1})
	}
	must.Do(t, w.Flush())
	r := openBytes(t, out.Bytes())
	for r.Next() {
		for i := 0; r.Block().Kind == KindOpenCall && i < r.Block().N; i++ {
			o.Learn(r.Block(), i)
		}
	}
	all := o.All()
	if len(all) != maxOpenOfThread || o.count != len(all) || all[0].Enter != many-maxOpenOfThread {
		t.Errorf("%d calls are kept, counted %d: %+v", len(all), o.count, all)
	}
}
