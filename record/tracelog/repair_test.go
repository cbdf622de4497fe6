package tracelog

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
)

// repairOf repairs a log in memory.
func repairOf(t *testing.T, log []byte) ([]byte, *Repair) {
	t.Helper()
	var out bytes.Buffer
	done := must.Get(RepairTo(&out, "out", openBytes(t, log)))(t)
	return out.Bytes(), done
}

// Whatever is wrong with a log, its repair has the same records, is without damage and
// says that it was repaired.
func TestRepair(t *testing.T) {
	t.Parallel()
	for _, c := range damagedLogs(t) {
		t.Run(c.name, func(t *testing.T) {
			fixed, done := repairOf(t, c.log)
			before := openBytes(t, c.log)
			want := 1 + survivors(before) // a note
			if _, ok := before.End(); !ok {
				want++
			}
			r := openBytes(t, fixed)
			if got := survivors(r); got != want || r.Err() != nil {
				t.Errorf("%d records, want %d; error %v", got, want, r.Err())
			}
			if end, ok := r.End(); !ok || end.Complete != 0 || !strings.Contains(end.Reason, "repaired") || done.Reason == "" {
				t.Errorf("end %+v, %v; reason %q", end, ok, done.Reason)
			}
			if done.Records != uint64(want-2) || done.Damage.Count != c.count {
				t.Errorf("kept %d records of %d, damage %v", done.Records, want-2, &done.Damage)
			}
			if _, err := r.Index(); err != nil {
				t.Errorf("no index: %v", err)
			}
			checkRecords(t, c.log, fixed)
			again, _ := repairOf(t, fixed)
			if n := survivors(openBytes(t, again)); n != want+1 {
				t.Errorf("repaired twice: %d records, want %d", n, want+1)
			}
		})
	}
}

// checkRecords holds the records of a log against those of its repair, but for its end.
func checkRecords(t *testing.T, log, fixed []byte) {
	t.Helper()
	inFixed := allLines(openBytes(t, fixed))
	for _, line := range allLines(openBytes(t, log)) {
		if !slices.Contains(inFixed, line) && !strings.HasPrefix(line, "end ") {
			t.Errorf("%q is not in the repaired log", line)
		}
	}
}

// With the index of the damaged log the number of missing records is known.
func TestRepairCounts(t *testing.T) {
	t.Parallel()
	log := launches(t, 30_000)
	lost, bytesLost := uint64(0), int64(0)
	for i, b := range blocksOf(t, log) {
		if i%3 == 2 && b.records > 1 {
			log[b.from+blockfile.HeaderSize+1] ^= 4
			lost += uint64(b.records)
			bytesLost += int64(b.to - b.from)
		}
	}
	_, done := repairOf(t, log)
	if lost == 0 || done.Missing != lost || done.Dropped != bytesLost {
		t.Errorf("%d records and %d bytes are missing, the repair says %d and %d", lost, bytesLost, done.Missing, done.Dropped)
	}
}

// A name that grows into any that the file system takes is one that it takes, too.
func TestPartialName(t *testing.T) {
	for name, want := range map[string]string{
		"a":                               "a.partial-12",
		"/x.y/z.cudatrace":                "/x.y/z.cudatrace.partial-12",
		"d/" + strings.Repeat("a", 255):   "d/" + strings.Repeat("a", 244) + ".partial-12",
		strings.Repeat("é", 127):          strings.Repeat("é", 122) + ".partial-12",
		"a" + strings.Repeat("é", 127):    "a" + strings.Repeat("é", 121) + ".partial-12",
		strings.Repeat("\x80", 255):       ".partial-12",
		"../" + strings.Repeat("b/", 300): "../" + strings.Repeat("b/", 300) + ".partial-12",
	} {
		if got := PartialName(name, "12"); got != want {
			t.Errorf("%.40s: %s", name, got)
		}
	}
}

// A log of a newer version keeps what this version does not know.
func TestRepairNewerVersion(t *testing.T) {
	log := newerVersion(t)
	fixed, _ := repairOf(t, log)
	first := allLines(openBytes(t, log))
	if got := allLines(openBytes(t, fixed)); len(got) != len(first)+2 || !slices.Equal(got[:len(first)], first) {
		t.Errorf("records were\n%q and are\n%q", first, got)
	}
}

// The repair of a log whose recorder was killed has a record of each call that had not returned.
func TestRepairOpenCalls(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		w, out := newTestWriter(t, Options{})
		w.Add(&OpenCall{PID: 1, TID: 2, Func: 3, Enter: 100, Dur: 1000, Caller: 7, Args: [MaxArgs]uint64{5}})
		w.Add(&OpenCall{PID: 1, TID: 3, Func: 3, Enter: 100, Dur: 1000})
		w.Add(&OpenCall{PID: 1, TID: 2, Func: 3, Enter: 5000, Dur: 1000, Args: [MaxArgs]uint64{0, 6}})
		w.Add(&OpenCall{PID: 1, TID: 4, Name: "cuCtxSynchronize", Enter: 100, Dur: 1000, Caller: 7})
		w.Add(&OpenCall{PID: 1, TID: 5, Name: "cuEventSynchronize", Enter: 100, Dur: 1000, Caller: 7})
		must.Do(t, w.Flush())
		w.Add(&Call{PID: 1, TID: 2, Func: 3, Enter: 100, Dur: 2000, Caller: 7, NArgs: 1, Args: [MaxArgs]uint64{5}})
		w.Add(&Call{PID: 1, TID: 3, Func: 4, Enter: 100, Dur: 2000})
		apis := []API{{PID: 1, TID: 5, Domain: DomainDriver, Name: "cuLaunchKernel", Start: 200, Dur: 5}}
		w.Add(&apis[0])
		must.Do(t, w.Flush())
		want := []Call{{PID: 1, TID: 2, Func: 3, Enter: 100, Dur: 2000, Caller: 7, NArgs: 1, Args: [MaxArgs]uint64{5}}, {PID: 1, TID: 3, Func: 4, Enter: 100, Dur: 2000}}
		if ended {
			must.Do(t, w.Close(End{Time: 9000}))
			out.WriteString("more") // to be repaired
		} else {
			want = append(want, Call{PID: 1, TID: 3, Func: 3, Flags: CallUnfinished, Enter: 100},
				Call{PID: 1, TID: 2, Func: 3, Flags: CallUnfinished, Enter: 5000, NArgs: 2, Args: [MaxArgs]uint64{0, 6}})
			apis = append(apis, API{PID: 1, TID: 4, Domain: DomainDriver, Name: "cuCtxSynchronize", Start: 100, Caller: 7, Flags: CallUnfinished})
		}
		fixed, _ := repairOf(t, out.Bytes())
		r := openBytes(t, fixed)
		var got []Call
		var gotAPIs []API
		for r.Next() {
			switch b := r.Block(); b.Kind {
			case KindCall:
				for i := range b.N {
					var c Call
					c.Read(b, i)
					got = append(got, c)
				}
			case KindAPI:
				for i := range b.N {
					var a API
					a.Read(b, i)
					gotAPIs = append(gotAPIs, a)
				}
			}
		}
		if r.Err() != nil || !slices.Equal(got, want) || !slices.Equal(gotAPIs, apis) {
			t.Errorf("ended %t: %+v and %+v, error %v; want %+v and %+v", ended, got, gotAPIs, r.Err(), want, apis)
		}
		if _, err := r.Index(); err != nil {
			t.Errorf("no index: %v", err)
		}
	}
}

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
