package read

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A thread has the name that the program gave it, else that of the kernel. The program and
// CUPTI number it in its PID namespace, the recorder in its own.
func TestThreadNames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, log string
		tid       uint32
		want      string
	}{
		{"nothing is known", "", 11, ""},
		{"the kernel's name", "thread pid=10 tid=11 name=worker", 11, "worker"},
		{"a later name of the kernel", "thread pid=10 tid=11 name=worker\nthread pid=10 tid=11 name=loader", 11, "loader"},
		{"a record without a name leaves the old one", "thread pid=10 tid=11 name=worker\nthread pid=10 tid=11 local_tid=3", 11, "worker"},
		{"the program's name is the better one", "thread pid=10 tid=11 name=worker\nname pid=10 object_kind=2 id=11 name=\"the worker\"", 11, "the worker"},
		{"a later name of the program", "name pid=10 object_kind=2 id=11 name=one\nname pid=10 object_kind=2 id=11 name=two", 11, "two"},
		{"the program takes its name back", "thread pid=10 tid=11 name=worker\nname pid=10 object_kind=2 id=11 name=one\nname pid=10 object_kind=2 id=11 name=\"\"", 11, "worker"},
		{"another thread", "thread pid=10 tid=12 name=worker\nname pid=10 object_kind=2 id=12 name=one", 11, ""},
		{"a thread of another process", "thread pid=9 tid=11 name=worker\nname pid=9 object_kind=2 id=11 name=one", 11, ""},
		{"the program's name in a namespace", "thread pid=10 tid=11 name=worker local_tid=2\nname pid=10 object_kind=2 id=2 name=one", 11, "one"},
		{"a number means another thread in the namespace", "thread pid=10 tid=11 name=worker local_tid=2\nname pid=10 object_kind=2 id=11 name=one", 11, "worker"},
		{"what is named is no thread", "name pid=10 object_kind=3 id=11 name=gpu\nname pid=10 object_kind=1 id=11 name=process", 11, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := catalogOf(t, logtest.Assemble(t, test.log))
			if got := c.Names.Thread(10, test.tid); got != test.want {
				t.Errorf("thread %d is %q, want %q", test.tid, got, test.want)
			}
		})
	}
}

// A thread number of CUPTI is one of the process's namespace; where the log knows no
// namespace, both numbers are one.
func TestHostTID(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, `thread pid=900 tid=901 local_tid=7
thread pid=900 tid=7 local_tid=8
thread pid=900 tid=902
thread pid=800 tid=801 local_tid=9`))
	for _, test := range []struct{ pid, local, want uint32 }{
		{900, 7, 901},
		{900, 8, 7},
		{900, 902, 902}, // not in a namespace
		{900, 9, 9},     // is one of another process only
		{800, 9, 801},
		{700, 7, 7},
	} {
		if got := c.Names.HostTID(test.pid, test.local); got != test.want {
			t.Errorf("thread %d of process %d is %d, want %d", test.local, test.pid, got, test.want)
		}
	}
	none := catalogOf(t, logtest.Assemble(t, "thread pid=900 tid=901 name=x"))
	if got := none.Names.HostTID(900, 901); got != 901 {
		t.Errorf("without namespaces thread 901 is %d", got)
	}
}

// Streams are named with their context, contexts and devices without what they lie in.
func TestObjectNames(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, `name pid=10 object_kind=5 id=7 context=1 device=3 name="stream of context 1"
name pid=10 object_kind=5 id=7 context=2 name="stream of context 2"
name pid=10 object_kind=4 id=1 context=9 device=3 name="a context"`))
	n := &c.Names
	got := []string{n.Stream(10, 1, 7), n.Stream(10, 2, 7), n.Stream(10, 3, 7), n.Stream(11, 1, 7), n.Context(10, 1), n.Context(10, 7), n.Context(11, 1)}
	want := []string{"stream of context 1", "stream of context 2", "", "", "a context", "", ""}
	goldentest.Same(t, want, got, "names")
}

// A device is called by its product and by the name that the program gave it.
func TestDeviceNames(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, "name pid=10 object_kind=3 id=1 context=4 name=left"))
	for _, test := range []struct {
		device tracelog.Device
		want   string
	}{
		{tracelog.Device{PID: 10, ID: 1, Name: "H200"}, "H200 (left)"},
		{tracelog.Device{PID: 10, ID: 1}, "left"},
		{tracelog.Device{PID: 10, ID: 2, Name: "H200"}, "H200"},
		{tracelog.Device{PID: 11, ID: 1, Name: "H200"}, "H200"},
		{tracelog.Device{PID: 10, ID: 2}, ""},
	} {
		if got := c.Names.device(&test.device); got != test.want {
			t.Errorf("device %d of process %d is %q, want %q", test.device.ID, test.device.PID, got, test.want)
		}
	}
}
