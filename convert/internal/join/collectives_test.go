package join

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// CollectiveParts gives every part of the ranks, also of collectives that their streams do not keep. Those of one number are of one collective: none
// ends before the other has begun.
func TestCollectiveParts(t *testing.T) {
	t.Parallel()
	const steps = 3000
	logs := logtest.WriteRanks(t, logtest.Ranks{Hosts: 1, PerHost: 2, Steps: steps, Straggler: -1})
	sources := make(map[*collective.Sequence]*CollectiveSource)
	var streams []*collective.Sequence
	for _, l := range logs {
		s := &CollectiveSource{Open: logtest.InMemory(l.Data), Of: 2}
		list := must.Get(ReadCollectives(s))(t)
		for _, x := range list {
			sources[x] = s
		}
		streams = append(streams, list...)
	}
	found := collective.Match(streams)
	if len(found) != 2 || found[0].Step() == 1 {
		t.Fatalf("%d communicators, want that of the host and that of all, with more collectives than are kept", len(found))
	}
	for _, c := range found {
		all := make(map[*collective.Sequence][]collective.Part)
		for _, m := range c.Members {
			err := CollectiveParts(sources[m], []*collective.Sequence{m}, func(of *collective.Sequence, number uint64, p collective.Part) {
				if of != m || number != uint64(len(all[m])) {
					t.Fatalf("part %d comes as part %d of %v", len(all[m]), number, of.Key)
				}
				all[m] = append(all[m], p)
			})
			if err != nil || len(all[m]) != steps {
				t.Errorf("%v: %d parts: %v", m.Key, len(all[m]), err)
			}
		}
		one, other := all[c.Members[0]], all[c.Members[1]]
		for i, p := range one {
			if !p.Waits || p.End < other[i].Start || other[i].End < p.Start {
				t.Fatalf("part %d: %v and %v", i, p, other[i])
			}
		}
	}
	if err := CollectiveParts(&CollectiveSource{}, nil, nil); err != nil {
		t.Errorf("no stream is looked for, and the log is read: %v", err)
	}
}

// ncclRank is the log of a process with one stream: n collectives of a communicator in calls alone, then some in groups. Each
// takes as long as on any other rank.
func ncclRank(pid, communicator, n, grouped int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("process pid=%d start=1 exe=/app", pid)
	for i := range n + grouped {
		at := 10000 * (i + 1)
		name, id := "ncclAllReduce", 10*i
		line("nccl_call pid=%d tid=%d name=%s time=%d known=0x3 communicator=%d bytes=8", pid, pid, name, at, communicator)
		line("marker pid=%d tid=%d flags=0x2 id=%d time=%d name=%s domain=NCCL", pid, pid, id, at+10, name)
		if i >= n { // the kernel of another communicator might be launched at the end of the group
			line("marker pid=%d tid=%d flags=0x4 id=%d time=%d domain=NCCL", pid, pid, id, at+20)
			id++
			line("marker pid=%d tid=%d flags=0x2 id=%d time=%d name=ncclGroupEnd domain=NCCL", pid, pid, id, at+30)
		}
		line("api pid=%d tid=%d domain=1 cbid=652 name=cuLaunchKernelEx start=%d dur=10 correlation=%d", pid, pid, at+100, i+1)
		if i%7 != 6 || i >= n { // the end of a range may be lost
			line("marker pid=%d tid=%d flags=0x4 id=%d time=%d domain=NCCL", pid, pid, id, at+200)
		}
		line("kernel pid=%d context=1 stream=20 correlation=%d start=%d dur=1000 name=ncclDevKernel_AllReduce grid_x=1", pid, i+1, at+300)
		line("kernel pid=%d context=1 stream=7 correlation=%d start=%d dur=1000 name=gemm grid_x=1", pid, 100000+i, at+300)
	}
	return b.String()
}

// pidsOf are the members of the communicators that a log has.
func pidsOf(t *testing.T, log string) (text string) {
	t.Helper()
	sequences, err := ReadCollectives(&CollectiveSource{Open: logtest.Assemble(t, log), Of: 1, NamesCommunicators: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range collective.Match(sequences) {
		var pids []uint32
		for _, m := range c.Members {
			pids = append(pids, m.PID)
		}
		text += fmt.Sprint(pids)
	}
	return text
}

func TestNCCLSays(t *testing.T) {
	t.Parallel()
	const a, b = 0xa00000001, 0xb00000001
	for _, c := range []struct{ name, log, want string }{
		{"one communicator", ncclRank(1, a, 5, 0) + ncclRank(2, a, 5, 0), "[1 2]"},
		{"one, more than are asked for", ncclRank(1, a, 300, 0) + ncclRank(2, a, 200, 0), "[1 2]"},
		{"two", ncclRank(1, a, 40, 0) + ncclRank(2, b, 40, 0) + ncclRank(3, a, 40, 0), "[1 3]"},
		{"mostly alone", ncclRank(1, a, 30, 10) + ncclRank(2, a, 40, 0), "[1 2]"},
		{"mostly in groups", ncclRank(1, a, 10, 30) + ncclRank(2, a, 40, 0), ""},
		{"none, and the times do not tell", ncclRank(1, 0, 40, 0) + ncclRank(2, 0, 40, 0), ""},
	} {
		if got := pidsOf(t, c.log); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Kernels of further processes and of further streams of a process are in no sequence, and are counted; so are calls of
// NCCL that are too many to be kept.
func TestCollectivesBeyondBounds(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	kernel := func(pid, stream int) {
		const line = "kernel pid=%d context=1 stream=%d start=%d dur=10 name=ncclDevKernel_AllReduce grid_x=1\n"
		fmt.Fprintf(&b, line, pid, stream, 100*pid+20*stream)
	}
	for pid := range maxSourceProcesses + 3 {
		kernel(pid+1, 1)
	}
	for stream := range maxSequences + 2 {
		kernel(1, stream+2)
	}
	s := &CollectiveSource{Open: logtest.Assemble(t, b.String()), Of: 1}
	if _, err := ReadCollectives(s); err != nil || s.Beyond != (CollectiveBounds{LeftOut: 3 + 3}) {
		t.Errorf("beyond the bounds are %+v, want 3 kernels of processes and 3 of streams: %v", s.Beyond, err)
	}
	var c ncclReading
	if c.bound(mostOfNCCL); c.useless || c.beyond != 0 {
		t.Errorf("with as many calls as are kept: %+v", c)
	}
	if c.bound(mostOfNCCL + 1); !c.useless || c.beyond != mostOfNCCL+1 {
		t.Errorf("with one call more: %+v", c)
	}
}
