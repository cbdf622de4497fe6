package ranks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

const sendRecv = "_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE"

// Sends and receives count by what NCCL says they are, and change nothing in how the collectives between them are put together.
func TestSends(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	j := newJob(2, clock, clock)
	send := func(rank int, at uint64, call string, bytes int64) {
		n := said(7, bytes)[0]
		n.Call = call
		j.Collective(j.streams[rank], &timeline.Work{Kind: timeline.KernelWork, Start: at, Dur: 1000, Shape: &timeline.Shape{Kernel: timeline.KernelShape{Name: sendRecv}}, NCCL: n})
	}
	for i := range uint64(20) {
		at := 1e9 + i*1e7
		j.runSaid(reduce, at+3e6, said(7, 8, 8), at, at+1e6)
		send(0, at+4e6, "ncclAlltoAll", 64)
		send(1, at+4e6, "ncclAlltoAll", 64)
		if i < 5 {
			send(0, at+5e6, "ncclSend", 100)
			send(1, at+5e6, "ncclRecv", 100)
			send(1, at+6e6, "", -1) // a group
		}
	}
	var rows []string
	c := j.Collectives()
	for _, r := range c.Rows {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.Cells[0].(string), "ncclDevKernel_"), "24nccl")
		rows = append(rows, fmt.Sprint(name, " ", r.Cells[1], " ranks ", r.Cells[2], " of ", r.Cells[3], ": ", r.Cells[4], ", ", r.Cells[5], " ns, waits ", r.Cells[6]))
	}
	want := []string{"AllReduce_Sum_bf16_RING_LL 0x7 ranks 0-1 of 2: 20, 100000000 ns, waits 20000000", "SendRecv (AlltoAll) 0x7 ranks 0-1 of 2: 40, 40000 ns, waits <nil>",
		"SendRecv 0x7 ranks 0-1 of 2: 15, 15000 ns, waits <nil>"}
	for i, row := range want {
		if i >= len(rows) || !strings.Contains(rows[i], row[strings.Index(row, " 0x7"):]) || !strings.Contains(rows[i], row[:strings.Index(row, " 0x7")]) {
			t.Errorf("rows %q, want %q", rows, want)
			break
		}
	}
	if notes := strings.Join(c.Notes, "; "); notes != "55 kernels that send and receive are counted on each rank, and not compared: nothing tells which belong together" {
		t.Errorf("notes %q", notes)
	}
	sizes, notes := sizeRows(j)
	if got := strings.Join(sizes, "\n"); notes != "" || !strings.Contains(got, "AlltoAll of -, 64-64 B: 40, 2560 B, 0 measured, - ns, - -") || !strings.Contains(got, "SendRecv of -, 100-100 B: 10, 1000 B, 0") || !strings.Contains(got, "SendRecv of -, --- B: 5,") {
		t.Errorf("%s\nnotes %q", got, notes)
	}
}

// Why no ranks were put together.
func TestApart(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	const nothing = "no collectives of NCCL that several ranks of the logs run together: "
	for want, make := range map[string]func(j *job){
		"":                               func(*job) {},
		nothing + "rank 1 alone has any": func(j *job) { j.streams = j.streams[1:]; j.run(reduce, 2e9, 1e9) },
		nothing + "their kernels are fewer than 16, or differ because records are missing or a recording began later (docs/hosts.md has the rules)": func(j *job) {
			j.run(reduce, 2e9, 1e9, 1e9)
		},
		nothing + "each rank is of another run": func(j *job) {
			one := j.streams
			j.streams = one[:1]
			j.run(reduce, 2e9, 1e9)
			j.Log(&timeline.Metadata{Values: map[string]string{"run": "another"}})
			j.streams = one[1:]
			j.run(reduce, 2e9, 1e9)
		},
	} {
		j := newJob(2, clock, clock)
		make(j)
		if got := j.Collectives().Reason; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
