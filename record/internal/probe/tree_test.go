package probe

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/must"
)

// TestTree finds processes of a tree, whose parents have ended, who run other programs in a cleaned environment, and who have
// ended; and none outside.
func TestTree(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	tree := must.Get(FollowTree())(t)
	defer tree.Close()
	outside := exec.Command("cat")
	outside.Stdin, _ = os.Open("/dev/null")
	must.Do(t, outside.Run())
	cmd := exec.Command("sh", "-c", `sh -c 'echo $$'; exec 3<&0; (env -i sh -c 'echo $$; exec cat <&3' &); exec cat`)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := tree.Start(func() { err1 = cmd.Start() }); err != nil || err1 != nil {
		t.Fatal(err, err1)
	}
	lines := bufio.NewScanner(out)
	number := func() uint32 {
		lines.Scan()
		n := must.Get(strconv.Atoi(strings.TrimSpace(lines.Text())))(t)
		return uint32(n)
	}
	short, orphan := number(), number()
	for m, _ := tree.Find(orphan); m.Name != "cat"; m, _ = tree.Find(orphan) {
		time.Sleep(time.Millisecond)
	}
	first, ok := tree.Find(short)
	second, ok2 := tree.Find(orphan)
	if !ok || !ok2 || !first.Ended || second.Ended || first.Name != "sh" || first.Began >= second.Began || second.Began > host.Monotonic() {
		t.Errorf("%t %+v, %t %+v", ok, first, ok2, second)
	}
	for _, pid := range []int{os.Getpid(), outside.Process.Pid} {
		if m, ok := tree.Find(uint32(pid)); ok {
			t.Errorf("process %d is of the tree: %+v", pid, m)
		}
	}
	if lost, err := tree.Forget(host.Monotonic()); lost || err != nil {
		t.Error(lost, err)
	}
	if _, ok := tree.Find(short); ok {
		t.Error("one that has ended is still known")
	}
	if _, ok := tree.Find(orphan); !ok {
		t.Error("one that runs is forgotten")
	}
	in.Close()
	_ = cmd.Wait()
}
