// Package attacktest has tests attack what root does, as another user. Input: a step of an attack.
// Output: the step, repeated beside the test by a process of that user.
package attacktest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// User is the user who attacks.
const User = 65534

// Rounds is how often an attack is tried: CUDATRACE_ATTACKS, or a few times.
func Rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("CUDATRACE_ATTACKS")
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Start runs a test again as the attacker, with a variable that says what to attack, until the returned
// function is called. That test calls Until.
func Start(t *testing.T, test, variable string) (end func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), variable)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: User, Gid: User}}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(output).ReadString('\n'); said != "ready\n" {
		t.Fatalf("the attacker said %q, %v", said, err)
	}
	return func() {
		input.Close()
		_ = cmd.Wait()
	}
}

// Until repeats a step of an attack until the test that called Start ends it.
func Until(step func(round int)) {
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	os.Stdout.WriteString("ready\n")
	for i := 0; ; i++ {
		select {
		case <-over:
			return
		default:
			step(i)
		}
	}
}
