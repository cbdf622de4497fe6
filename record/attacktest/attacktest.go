// Package attacktest has tests attack what root does, as another user. Input: a step of an attack.
// Output: the step, repeated beside the test by a process of that user.
package attacktest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
)

// User is the user who attacks.
const User = 65534

// Rounds is how often an attack is tried: CUDATRACE_ATTACKS, or a few times.
func Rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("CUDATRACE_ATTACKS")
	if text == "" {
		return 20
	}
	n := must.Get(strconv.Atoi(text))(t)
	return n
}

// variable names the folder that the attacker's process attacks, and the victim.
const variable = "CUDATRACE_ATTACK"

// Attacks reports whether this process is the attacker's: it then repeats a step of the attack until the
// test that called Start ends it.
func Attacks(step func(folder, victim string, round int)) bool {
	folder, victim, is := strings.Cut(os.Getenv(variable), ":")
	if !is {
		return false
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	os.Stdout.WriteString("ready\n")
	for i := 0; ; i++ {
		select {
		case <-over:
			return true
		default:
			step(folder, victim, i)
		}
	}
}

// Start runs a test again as the attacker, until the returned function is called. That test calls
// Attacks first.
func Start(t *testing.T, folder, victim string) (end func()) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), variable+"="+folder+":"+victim)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: User, Gid: User}}
	input, output := pipetest.Start(t, cmd)
	if said, err := bufio.NewReader(output).ReadString('\n'); said != "ready\n" {
		t.Fatalf("the attacker said %q, %v", said, err)
	}
	return func() {
		input.Close()
		_ = cmd.Wait()
	}
}
