package join

import "testing"

// What a call waited for that names a stream.
func TestStreamWaits(t *testing.T) {
	t.Parallel()
	runScripts(t, []scriptTest{
		{"the last work of the stream that launches with the handle ran on", `
			learn 0x5 t1 7
			work a 7 100-200 by 50
			work b 7 210-500 by 60
			work c 8 100-550 by 50
			wait t1 stream 0x5 300-600`, "t1@300: b"},
		{"another thread's launches with the handle", `
			learn 0x5 t2 7
			work a 7 100-500 by 50
			work b 8 100-550 by 50
			wait t1 stream 0x5 300-600`, "t1@300: a"},
		{"work that had ended, once", `
			learn 0x5 t1 7
			work a 7 100-200 by 50
			wait t1 stream 0x5 300-310
			wait t1 stream 0x5 400-410`, "t1@300: a"},
		{"work that two threads wait for", `
			learn 0x5 t1 7
			work a 7 100-500 by 50
			wait t1 stream 0x5 200-510
			wait t2 stream 0x5 300-520`, "t1@200: a; t2@300: a"},
		{"work that was launched while the call waited", `
			learn 0x5 t1 7
			work a 7 100-300 by 50
			work b 7 310-500 by 250
			wait t1 stream 0x5 200-600`, "t1@200: a"},
		{"work whose launch is not known", `
			learn 0x5 t1 7
			work a 7 100-300
			wait t1 stream 0x5 200-600`, "t1@200: a"},
		{"work in front of work that goes on afterwards", `
			learn 0x5 t1 7
			work a 7 100-300 by 50
			work b 7 310-900 by 60
			wait t1 stream 0x5 200-600`, "t1@200: a"},
		{"a GPU whose clock is a little late", `
			learn 0x5 t1 7
			work a 7 100-606 by 50
			wait t1 stream 0x5 200-596`, "t1@200: a"},
		{"a GPU whose clock would have to be later than that", `
			learn 0x5 t1 7
			work a 7 100-607 by 50
			wait t1 stream 0x5 200-596`, ""},
		{"nodes of one graph, the last to end first in the list", `
			learn 0x5 t1 7
			work a 7 100-150 by 50 c5
			work b 7 200-500 by 60 c6
			work c 7 210-300 by 60 c6
			wait t1 stream 0x5 300-600`, "t1@300: b"},
		{"work that goes on afterwards", `
			learn 0x5 t1 7
			work a 7 100-900 by 50
			wait t1 stream 0x5 300-600`, ""},
		{"a handle that stood for several streams: the one whose work ended last", `
			learn 0x5 t1 7
			learn 0x5 t1 8
			learn 0x5 t1 9
			work a 7 100-200 by 50
			work b 8 210-500 by 60
			work c 9 220-480 by 70
			wait t1 stream 0x5 300-600`, "t1@300: b"},
		{"a handle of which nothing is known: the only stream that no handle is known of", `
			learn 0x6 t1 8
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t1 stream 0x5 300-600`, "t1@300: a"},
		{"a stream by the call that made it", `
			made 0x5 t1 7
			made 0x6 t1 8
			work a 7 100-500 by 50
			work b 8 100-550 by 50
			wait t1 stream 0x5 300-600`, "t1@300: a"},
		{"work that had ended, of the only stream whose handle nobody saw", `
			unseen 7
			made 0x6 t1 8
			work a 7 100-200 by 50
			work b 8 100-150 by 50
			wait t1 stream 0x5 300-310`, "t1@300: a"},
		{"the same handle again, of a stream that was made later", `
			unseen 7
			work a 7 100-200 by 50
			wait t1 stream 0x5 300-310
			made 0x5 t1 9
			work b 9 400-500 by 390
			wait t1 stream 0x5 450-510`, "t1@300: a; t1@450: b"},
		{"a stream that was made and has no work, beside one whose handle nobody saw", `
			unseen 7
			made 0x6 t1 8
			work a 7 100-200 by 50
			wait t1 stream 0x6 300-310`, ""},
		{"two streams whose handles nobody saw", `
			unseen 7
			unseen 8
			work a 7 100-200 by 50
			work b 8 100-200 by 50
			wait t1 stream 0x5 300-310`, ""},
		{"a handle of which nothing is known, with two such streams", `
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t1 stream 0x5 300-600`, "ambiguous 1"},
		{"a handle of which nothing is known, with one stream that worked", `
			work a 7 100-500 by 50
			work b 8 100-200 by 50
			wait t1 stream 0x5 300-600`, "t1@300: a"},
		{"no handle", `
			work a 7 100-500 by 50
			wait t1 stream 300-600`, "t1@300: a"},
		{"a stream of a graph, where launches named no other", `
			learn 0x5 t1 7 graph
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t1 stream 0x5 300-600`, "t1@300: a"},
		{"a graph that ran on several streams", `
			learn 0x5 t1 7 graph
			learn 0x5 t1 8 graph
			work a 7 100-500 by 50
			work b 8 100-200 by 50
			wait t1 stream 0x5 300-600`, "t1@300: a"},
		{"a graph on a stream that launches name", `
			learn 0x5 t1 7
			learn 0x5 t1 8 graph
			work a 7 100-400 by 50
			work b 8 100-500 by 50
			wait t1 stream 0x5 300-600`, "t1@300: a"},
		{"launches that name no stream teach nothing", `
			learn 0x0 t1 7
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t1 stream 0x5 300-600`, "ambiguous 1"},
	})
}

// The default stream is another one in each context; that of a thread is another one for
// each thread, too.
func TestDefaultStreamWaits(t *testing.T) {
	t.Parallel()
	runScripts(t, []scriptTest{
		{"the only context's", `
			learn 0x1 t1 7
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t2 stream 0x1 300-600`, "t2@300: a"},
		{"that of the thread's context", `
			learn 0x1 t1 7
			learn 0x1 t2 2/7
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t1 stream 0x1 300-600
			wait t2 stream 0x1 310-610`, "t1@300: a; t2@310: b"},
		{"a thread without launches, in two contexts", `
			learn 0x1 t1 7
			learn 0x1 t2 2/7
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t3 stream 0x1 300-600`, "ambiguous 1"},
		{"a thread without launches, in two contexts of which one worked", `
			learn 0x1 t1 7
			learn 0x1 t2 2/7
			work a 7 100-500 by 50
			work b 2/7 100-200 by 50
			wait t3 stream 0x1 300-600`, "t3@300: a"},
		{"a thread of several contexts", `
			learn 0x1 t1 7
			learn 0x1 t1 2/7
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t1 stream 0x1 300-600`, "ambiguous 1"},
		{"a thread whose launches named another stream of its context", `
			learn 0x1 t1 7
			learn 0x9 t3 2/9
			work a 7 100-500 by 50
			work b 2/9 100-500 by 50
			work c 2/8 100-500 by 50
			wait t3 stream 0x1 300-600`, "t3@300: c"},
		{"streams of other handles in several contexts", `
			learn 0x5 t1 7
			learn 0x5 t1 2/7
			work a 7 100-500 by 50
			work b 2/7 100-550 by 50
			wait t1 stream 0x5 300-600`, "t1@300: b"},
		{"the threads' own", `
			learn 0x2 t1 7
			learn 0x2 t2 8
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t1 stream 0x2 300-600
			wait t2 stream 0x2 310-610`, "t1@300: a; t2@310: b"},
		{"that of a thread that launched nothing", `
			learn 0x2 t1 7
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t2 stream 0x2 310-610`, "t2@310: b"},
	})
}

// What a call waited for that waits for a context, which it does not name.
func TestContextWaits(t *testing.T) {
	t.Parallel()
	runScripts(t, []scriptTest{
		{"the only context: the last work of each stream", `
			work a 7 100-500 by 50
			work b 8 100-400 by 50
			work c 8 410-450 by 60
			wait t1 context 300-600`, "t1@300: a c"},
		{"work that had ended, once", `
			work a 7 100-200 by 50
			wait t1 context 300-310
			wait t1 context 400-410`, "t1@300: a"},
		{"that of the thread's launches", `
			learn 0x0 t1 7
			learn 0x0 t2 2/7
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t1 context 300-600
			wait t2 context 310-610`, "t1@300: a; t2@310: b"},
		{"the only one that worked", `
			learn 0x0 t2 2/7
			work a 7 100-500 by 50
			work b 2/7 700-900 by 650
			wait t1 context 300-600`, "t1@300: a"},
		{"two that worked", `
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t1 context 300-600`, "ambiguous 1"},
		{"two that worked, of which one goes on", `
			work a 7 100-500 by 50
			work b 2/7 100-400 by 50
			work c 2/7 410-900 by 60
			wait t1 context 300-600`, "t1@300: a"},
		{"two that worked, of which one has work that was launched meanwhile", `
			work a 7 100-500 by 50
			work b 2/7 100-400 by 50
			work c 2/7 410-900 by 350
			wait t1 context 300-600`, "ambiguous 1"},
		{"two that worked, of which one has work of an unknown launch", `
			work a 7 100-500 by 50
			work b 2/7 100-400 by 50
			work c 2/7 410-900
			wait t1 context 300-600`, "ambiguous 1"},
		{"a thread of several contexts", `
			learn 0x0 t1 7
			learn 0x0 t1 2/7
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t1 context 300-600`, "ambiguous 1"},
	})
}

// What a call waited for that waits for an event: the only work that ended meanwhile.
func TestEventWaits(t *testing.T) {
	t.Parallel()
	runScripts(t, []scriptTest{
		{"one stream", `
			work a 7 100-500 by 50
			work b 8 100-200 by 50
			wait t1 event 300-600`, "t1@300: a"},
		{"streams of two contexts", `
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t1 event 300-600`, "ambiguous 1"},
		{"work that had ended: the event may have been of any", `
			work a 7 100-200 by 50
			wait t1 event 300-600`, ""},
		{"no work", "wait t1 event 300-600", ""},
	})
}

// Calls that did not wait for what is asked for.
func TestCallsThatDoNotCount(t *testing.T) {
	t.Parallel()
	const work = "learn 0x5 t1 7\nwork a 7 100-500 by 50\n"
	runScripts(t, []scriptTest{
		{"one that failed", work + "wait t1 stream 0x5 300-600 failed", ""},
		{"one that had not returned", work + "wait t1 stream 0x5 300-600 unfinished", ""},
		{"one with work of its own", work + "wait t1 stream 0x5 300-600 work", ""},
		{"one that was shown", work + "wait t1 stream 0x5 300-600 shown", ""},
		{"one that is still open", work + "wait t1 stream 0x5 300-600 open", ""},
	})
}
