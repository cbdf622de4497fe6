package join

import "testing"

// The work that a Sync record's call waited for.
func TestWorkOfRecords(t *testing.T) {
	t.Parallel()
	runScripts(t, true, []scriptTest{
		{"work that ended within the wait", `
			work a 7 100-500 by 50
			wait t1 stream 200-600
			sync stream 7 210-590`, "t1@200: a"},
		{"the last work of the stream", `
			work a 7 100-200 by 50
			work b 7 210-500 by 60
			wait t1 stream 300-600
			sync stream 7 310-590`, "t1@300: b"},
		{"work of another stream, and of the stream's number in another context", `
			work a 8 100-500 by 50
			work b 2/7 100-500 by 50
			wait t1 stream 200-600
			sync stream 7 210-590`, ""},
		{"work that had ended before", `
			work a 7 100-200 by 50
			wait t1 stream 300-310
			sync stream 7 301-309`, "t1@300: a"},
		{"work that had ended before, and was waited for", `
			work a 7 100-200 by 50
			wait t1 stream 300-310
			sync stream 7 301-309
			wait t1 stream 400-410
			sync stream 7 401-409`, "t1@300: a"},
		{"work that two threads wait for", `
			work a 7 100-500 by 50
			wait t1 stream 200-510
			sync stream 7 201-509 c1
			wait t2 stream 300-520
			sync stream 7 301-519 c2`, "t1@200: a; t2@300: a"},
		{"work that was launched while the call waited", `
			work a 7 100-300 by 50
			work b 7 310-500 by 250
			wait t1 stream 200-600
			sync stream 7 210-590`, "t1@200: a"},
		{"work whose launch is not known", `
			work a 7 100-300
			wait t1 stream 200-600
			sync stream 7 210-590`, "t1@200: a"},
		{"work that went on afterwards", `
			work a 7 100-300 by 50
			work b 7 310-900 by 60
			wait t1 stream 200-600
			sync stream 7 210-590`, "t1@200: a"},
		{"a GPU whose clock is a little late", `
			work a 7 100-600 by 50
			wait t1 stream 200-596
			sync stream 7 210-595`, "t1@200: a"},
		{"a GPU whose clock would have to be later than that", `
			work a 7 100-606 by 50
			wait t1 stream 200-596
			sync stream 7 210-595`, ""},
		{"nodes of one graph, the last to end first in the list", `
			work a 7 100-150 by 50 c5
			work b 7 200-500 by 60 c6
			work c 7 210-300 by 60 c6
			wait t1 stream 300-600
			sync stream 7 310-590`, "t1@300: b"},
		{"a stream without work", `
			wait t1 stream 200-600
			sync stream 7 210-590`, ""},
		{"a context: the last work of each of its streams", `
			work a 7 100-200 by 50
			work b 7 210-500 by 60
			work c 8 100-300 by 50
			work d 2/9 100-500 by 50
			wait t1 context 250-600
			sync context 1/- 260-590`, "t1@250: b c"},
		{"a context whose work was waited for", `
			work a 7 100-200 by 50
			work b 8 100-200 by 50
			wait t1 stream 300-310
			sync stream 7 301-309
			wait t1 context 400-410
			sync context 1/- 401-409`, "t1@300: a; t1@400: b"},
		{"a context of which the record names a stream", `
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t1 context 200-600
			sync context 7 210-590`, "t1@200: a b"},
		{"an event, with work of one stream", `
			work a 7 100-500 by 50
			work b 8 100-150 by 50
			wait t1 event 200-600
			sync event 1/- 210-590`, "t1@200: a"},
		{"an event, with work of two streams", `
			work a 7 100-500 by 50
			work b 8 100-550 by 50
			wait t1 event 200-600
			sync event 1/- 210-590`, ""},
		{"an event whose record names the stream", `
			work a 7 100-500 by 50
			work b 8 100-550 by 50
			wait t1 event 200-600
			sync event 8 210-590`, "t1@200: b"},
		{"a stream that the record does not name: what ended meanwhile", `
			work a 7 100-500 by 50
			work b 8 100-150 by 50
			wait t1 stream 200-600
			sync stream 1/- 210-590`, "t1@200: a"},
		{"a stream that waits for an event makes no call wait", `
			work a 7 100-500 by 50
			wait t1 stream 200-600
			sync between 7 210-590`, ""},
		{"a copy that waits for itself", `
			work a 7 100-500 by 50
			wait t1 stream 200-600 work
			sync stream 7 210-590`, ""},
	})
}

// The call that a Sync record is of.
func TestCallOfRecords(t *testing.T) {
	t.Parallel()
	const work = "work a 7 100-500 by 50\n"
	runScripts(t, true, []scriptTest{
		{"no call at its time", work + `
			wait t1 stream 700-800
			sync stream 7 210-590`, "unmatched 1"},
		{"no calls", work + "sync stream 7 210-590", "unmatched 1"},
		{"a record that begins a little before its call", work + `
			wait t1 stream 200-600
			sync stream 7 195-590`, "t1@200: a"},
		{"a record that ends a little after its call", work + `
			wait t1 stream 200-600
			sync stream 7 210-609`, "t1@200: a"},
		{"a record that holds its call", work + `
			wait t1 stream 200-600
			sync stream 7 150-700`, "t1@200: a"},
		{"a record that crosses the beginning of a call", work + `
			wait t1 stream 200-600
			sync stream 7 180-580`, "unmatched 1"},
		{"a record that crosses the end of a call", work + `
			wait t1 stream 200-600
			sync stream 7 215-620`, "unmatched 1"},
		{"a call that has a record already", work + `
			wait t1 stream 200-600
			sync stream 7 210-590
			sync stream 7 220-580`, "t1@200: a; unmatched 1"},
		{"of two calls that of the kind of wait", work + `
			wait t1 context 200-600
			wait t2 stream 190-620
			sync stream 7 210-590`, "t2@190: a"},
		{"a call of another kind where there is no other", work + `
			wait t1 context 200-600
			sync stream 7 210-590`, "t1@200: a"},
		{"of two calls that with more time in common", work + `
			wait t1 stream 250-600
			wait t2 stream 240-600
			sync stream 7 210-650`, "t2@240: a; ambiguous 1"},
		{"of two calls the shorter", work + `
			wait t1 stream 200-600
			wait t2 stream 190-610
			sync stream 7 210-590`, "t1@200: a; ambiguous 1"},
		{"calls of a thread, one after the other", `
			work a 7 100-190 by 50
			work b 7 200-290 by 60
			wait t1 stream 110-195
			wait t1 stream 210-295
			sync stream 7 215-294`, "t1@210: b"},
		{"two calls of a thread that both may have made it", work + `
			wait t1 stream 200-210
			wait t1 stream 211-600
			sync stream 7 209-590`, "t1@211: a"},
		{"by its correlation ID, though its function is not known to wait", work + `
			call c9 t1 0x5 200-600
			sync stream 7 210-590 c9`, "t1@200: a"},
		{"by its correlation ID, whatever other calls there are", work + `
			call c9 t3 0x5 200-600
			wait t1 stream 200-600
			wait t2 stream 200-600
			sync stream 7 210-590 c9`, "t3@200: a"},
		{"by time, where no call has its correlation ID", work + `
			call c9 t3 0x5 200-600
			wait t1 stream 200-600
			sync stream 7 210-590 c10`, "t1@200: a"},
		{"a call that was shown", work + `
			wait t1 stream 200-600 shown
			sync stream 7 210-590`, "unmatched 1"},
		{"a call that failed, which waited even so", work + `
			wait t1 stream 200-600 failed
			sync stream 7 210-590`, "t1@200: a"},
		{"a call alone", work + "wait t1 stream 200-600", ""},
		{"records in another order than their waits", `
			work a 7 100-190 by 50
			work b 7 200-290 by 150
			wait t1 stream 110-195
			wait t1 stream 210-295
			sync stream 7 215-294
			sync stream 7 115-194`, "t1@110: a; t1@210: b"},
	})
}

// A record waits for its call to be closed, and those behind it wait with it.
func TestRecordOfOpenCall(t *testing.T) {
	t.Parallel()
	const log = `
		work a 7 100-500 by 50
		work b 7 700-800 by 650
		wait t1 stream 200-600 open
		wait t1 stream 710-900
		sync stream 7 210-590
		sync stream 7 711-890
		advance 2000`
	s := newScript(t, true, 0)
	s.run(log)
	if got := s.found(); got != "" {
		t.Errorf("found is %q before the call is closed", got)
	}
	s.run("close\nadvance 2000")
	if got := s.found(); got != "t1@200: a; t1@710: b" {
		t.Errorf("found is %q", got)
	}
	s = newScript(t, true, 0)
	s.run(log)
	if s.j.joinUntil(3_000_000, true); s.found() != "t1@200: a; t1@710: b" {
		t.Errorf("at the end of the log found is %q", s.found())
	}
}
