package read

import (
	"fmt"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
)

func TestCommunicators(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, `
nccl_call pid=1 tid=1 name=ncclAllReduce time=10 known=0x3 communicator=0xa00000001 bytes=100
nccl_call pid=1 tid=1 name=ncclAllGather time=20 known=0x3 communicator=0xb00000001 bytes=7
nccl_call pid=2 tid=2 name=ncclAllReduce time=20 known=0x3 communicator=0xa00000001 bytes=18446744073709551615
nccl_call pid=2 tid=2 name=ncclAllReduce time=30 known=0x3 communicator=0xa00000001 bytes=1
nccl_call pid=1 tid=1 name=ncclSend time=40 known=0x3 communicator=0xa00000001 bytes=11
nccl_call pid=1 tid=1 name=ncclFuture time=50
nccl_call pid=3 tid=3 name=ncclReduce time=60 known=0x2 bytes=5
nccl_call pid=1 tid=1 name=ncclCommDestroy time=70 known=0x5 communicator=0xa00000001 ranks=8 rank=3
end time=100 complete=1
`))
	got := ""
	for _, x := range c.Communicators.List {
		got += fmt.Sprintf("%d %#x rank %d of %d: %d, %d\n", x.PID, x.Hash, x.Rank, x.Ranks, x.Calls, x.Bytes)
	}
	const want = `1 0xa00000001 rank 3 of 8: 2, 111
1 0xb00000001 rank 0 of 0: 1, 7
2 0xa00000001 rank 0 of 0: 2, 18446744073709551615
3 0x0 rank 0 of 0: 1, 5
`
	if got != want || c.Communicators.Further != 0 {
		t.Errorf("%s and %d, want %s", got, c.Communicators.Further, want)
	}
}

// A log may name any number of communicators.
func TestManyCommunicators(t *testing.T) {
	t.Parallel()
	var c Communicators
	for i := range uint64(maxCommunicators + 10) {
		if of := c.of(communicatorKey{1, i}); (of == nil) != (i >= maxCommunicators) {
			t.Fatalf("communicator %d is %v", i, of)
		}
	}
}
