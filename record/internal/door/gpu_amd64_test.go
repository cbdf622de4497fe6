package door

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// A gpuProgram is testdata/gpu/finalize.cu, on a GPU. testdata/gpu/door.sh runs the tests of this file.
type gpuProgram struct {
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Reader
	pid     int
}

// startGPUProgram starts the program that FINALIZE names, and returns the number in another variable.
func startGPUProgram(t *testing.T, variable string) (p *gpuProgram, n int) {
	t.Helper()
	command := strings.Fields(os.Getenv("FINALIZE"))
	n, _ = strconv.Atoi(os.Getenv(variable))
	if len(command) == 0 || n == 0 {
		t.Skip("needs a GPU: FINALIZE and " + variable + " are not set")
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, out := pipetest.Start(t, cmd)
	p = &gpuProgram{strings.Join(command[1:], " "), cmd, in, bufio.NewReader(out), cmd.Process.Pid}
	if _, err := p.tell("s"); err != nil { // an answer: its threads have been started
		t.Fatal(err)
	}
	return p, n
}

// tell has the program do what a letter says.
func (p *gpuProgram) tell(letter string) (n int, err error) {
	_, err = io.WriteString(p.in, letter)
	line, failed := p.answers.ReadString('\n')
	n, wrong := strconv.Atoi(strings.TrimSpace(line))
	return n, errors.Join(err, failed, wrong)
}

// do is tell, where the answer is to be 0.
func (p *gpuProgram) do(letter string) error {
	n, err := p.tell(letter)
	if n != 0 || err != nil {
		return fmt.Errorf("%s returned %d, %w", letter, n, err)
	}
	return nil
}

// shut does something while the program's other threads are stopped, and returns how often that took a new try.
func (p *gpuProgram) shut(do func() error) (again int, err error) {
	for {
		if err = shutBut(p.pid, p.pid, do); !errors.Is(err, ErrInside) || again == 20 {
			return again, err
		}
		again++
		time.Sleep(5 * time.Millisecond)
	}
}

// end ends the program, whose results are right.
func (p *gpuProgram) end(t *testing.T) {
	t.Helper()
	wrong, err := p.tell("q")
	p.in.Close()
	if failed := p.cmd.Wait(); wrong != 0 || err != nil || failed != nil {
		t.Errorf("%s: wrong %d, %v; the program ended with %v", p.name, wrong, err, failed)
	}
}

// TestFinalize has a program switch CUPTI on and finalize it many times, for the time MOST.
func TestFinalize(t *testing.T) {
	p, rounds := startGPUProgram(t, "ROUNDS")
	most, err := time.ParseDuration(cmp.Or(os.Getenv("MOST"), "1h"))
	must.Do(t, err)
	all, made, open := 0, 0, 0
	var longest time.Duration
	for end := time.Now().Add(most); made < rounds && time.Now().Before(end); made++ {
		for _, letter := range []string{"e", "f"} {
			began := time.Now()
			again, err := p.shut(func() error { return p.do(letter) })
			if errors.Is(err, ErrInside) { // CUPTI stays as it is
				open++
			} else if err != nil {
				t.Fatalf("%s: round %d of %d, %s: %v", p.name, made+1, rounds, letter, err)
			}
			longest = max(longest, time.Since(began))
			all += again
			time.Sleep(2 * time.Millisecond)
		}
	}
	p.end(t)
	fmt.Printf("%-12s %6d rounds, %d tries more, %d doors stayed open, %.1f ms at most\n", p.name, made, all, open,
		float64(longest)/1e6)
}

// TestSpeed compares the time of a launch behind rounds of CUPTI with that before. A second program, which never has CUPTI,
// launches by turns with the first: of two neighbouring times, each divided by that of a loop on the processor, the ratio
// does not depend on the machine's drift, and that ratio's median after over that before not on the programs.
func TestSpeed(t *testing.T) {
	p, pairs := startGPUProgram(t, "PAIRS")
	control, _ := startGPUProgram(t, "PAIRS")
	must.Do(t, errors.Join(p.do("h"), control.do("h")))
	one := func(p *gpuProgram) float64 {
		err0 := p.do("g")
		s1, err1 := p.tell("s")
		n, err2 := p.tell("t")
		s2, err3 := p.tell("s")
		if err := errors.Join(err0, err1, err2, err3, p.do("h")); err != nil {
			t.Fatal(err)
		}
		return math.Log(2 * float64(n) / float64(s1+s2))
	}
	var spreads string
	measure := func() []float64 {
		both := [2][]float64{make([]float64, pairs), make([]float64, pairs)}
		differences := make([]float64, pairs)
		for i := range pairs {
			for j := range 2 { // by turns
				who := (i + j) % 2
				both[who][i] = one([]*gpuProgram{p, control}[who])
			}
			differences[i] = both[0][i] - both[1][i]
		}
		for _, times := range both {
			slices.Sort(times)
			spreads += fmt.Sprintf(" %.3f", math.Exp(times[pairs*9/10]-times[pairs/10]))
		}
		return differences
	}
	before := measure()
	const rounds = 20
	must.Do(t, p.do("g"))
	for range rounds {
		for _, letter := range []string{"e", "f"} {
			_, err := p.shut(func() error { return p.do(letter) })
			for letter == "f" && errors.Is(err, ErrInside) { // without it, CUPTI would be measured
				_, err = p.shut(func() error { return p.do(letter) })
			}
			if err != nil && !errors.Is(err, ErrInside) {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	must.Do(t, p.do("h"))
	after := measure()
	is, low, high := ratioOfMedians(after, before)
	fmt.Printf("%-12s a launching call took x %.4f of its time before (95 %%: %.4f .. %.4f), %d + %d pairs of 30 ms, %d rounds; 90 %% over 10 %%:%s\n",
		p.name, is, low, high, pairs, pairs, rounds, spreads)
	p.end(t)
	control.end(t)
}

// ratioOfMedians is the ratio of the medians of two samples of logarithms, and its interval of 95 % by bootstrap.
func ratioOfMedians(a, b []float64) (is, low, high float64) {
	median := func(x []float64) float64 { slices.Sort(x); return (x[(len(x)-1)/2] + x[len(x)/2]) / 2 }
	again := func(x []float64) []float64 {
		y := make([]float64, len(x))
		for i := range y {
			y[i] = x[rand.N(len(x))]
		}
		return y
	}
	const times = 2000
	all := make([]float64, times)
	for i := range all {
		all[i] = median(again(a)) - median(again(b))
	}
	slices.Sort(all)
	return math.Exp(median(a) - median(b)), math.Exp(all[times/40]), math.Exp(all[times-times/40])
}

// TestRatioOfMedians finds a planted ratio.
func TestRatioOfMedians(t *testing.T) {
	t.Parallel()
	var a, b []float64
	for range 400 {
		a, b = append(a, math.Log(1.05)+rand.NormFloat64()/20), append(b, rand.NormFloat64()/20)
	}
	if is, low, high := ratioOfMedians(a, b); is < 1.03 || is > 1.07 || low > is || high < is || high-low > 0.04 {
		t.Errorf("%.4f (%.4f .. %.4f), want 1.05", is, low, high)
	}
}

// TestEnable measures the time from the wish to record to the first record beside threads that launch without pause: first
// with the threads let alone, until the door helps after 5 s, then with the door from the start.
func TestEnable(t *testing.T) {
	p, times := startGPUProgram(t, "TIMES")
	const patience = 5 * time.Second
	alone := func() error {
		done := make(chan error, 1)
		go func() { done <- p.do("e") }()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
		}
		began := time.Now()
		for time.Since(began) < patience {
			err := shutBut(p.pid, p.pid, func() error {
				select {
				case err := <-done:
					done <- err
				case <-time.After(500 * time.Millisecond):
				}
				return nil
			})
			if err != nil && !errors.Is(err, ErrInside) {
				return err
			}
			select {
			case err := <-done:
				fmt.Printf("%-12s the door helped within %.1f ms\n", p.name, float64(time.Since(began))/1e6)
				return err
			case <-time.After(5 * time.Millisecond):
			}
		}
		return errors.New("CUPTI did not come on")
	}
	door := func() error {
		_, err := p.shut(func() error { return p.do("e") })
		return err
	}
	for i, enable := range []func() error{alone, door} {
		var took []string
		for range times {
			began := time.Now()
			if err := enable(); err != nil {
				t.Fatal(err)
			}
			on := time.Since(began)
			if err := p.do("w"); err != nil {
				t.Fatal(err)
			}
			took = append(took, fmt.Sprintf("%.1f/%.1f", float64(on)/1e6, float64(time.Since(began))/1e6))
			if _, err := p.shut(func() error { return p.do("f") }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		fmt.Printf("%-12s %s, ms to CUPTI on / to the first record: %s\n", p.name, []string{"let alone", "door shut"}[i],
			strings.Join(took, " "))
	}
	p.end(t)
}

// TestInsides tells what keeps the threads of the process PID inside that are there in each of three looks: the call of the
// kernel that they wait in, the code that they began in, and the words of CUDA's on their stacks.
func TestInsides(t *testing.T) {
	pid, _ := strconv.Atoi(os.Getenv("PID"))
	if pid == 0 {
		t.Skip("needs a process with CUDA: PID is not set")
	}
	looks := map[int]int{}
	const times = 3
	for n := range times {
		must.Do(t, onThreadOfItsOwn(func() error {
			d := door{pid: pid, threads: map[int]*thread{}, own: map[int]bool{}, memory: procfs.Memory{PID: pid}}
			code, err := readCode(pid)
			d.code = code
			d.bottom, _ = procfs.StackBottom(pid)
			defer d.release()
			defer d.close()
			if _, failed := d.seize(); failed != nil || err != nil {
				return errors.Join(failed, err)
			}
			for tid, th := range d.threads {
				if there, err := d.stop(th); !there || err != nil {
					fmt.Printf("thread %d: does not stop, %v\n", tid, err)
					continue
				}
				v, outside, err := d.view(th)
				if name, _ := procfs.ThreadName(uint32(pid), uint32(tid)); err == nil && !outside && !(v.began == cuda && d.isOwn(tid)) {
					if looks[tid]++; looks[tid] == times && n == times-1 {
						fmt.Printf("thread %d, %s: %+v\n", tid, name, v)
						d.tell(tid)
					}
				}
				if err := d.goOn(th, 0); err != nil {
					return err
				}
			}
			return nil
		}))
		time.Sleep(50 * time.Millisecond)
	}
}

// tell prints what a stopped thread's registers and stack say.
func (d *door) tell(tid int) {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		fmt.Println(err)
		return
	}
	where := func(address uint64) string {
		m := procfs.Around(d.code, address)
		if m == nil {
			return ""
		}
		return fmt.Sprintf("%s+%#x", filepath.Base(m.Path), m.Offset+address-m.From)
	}
	fmt.Printf("  at %s, call %d; stack %#x, end %+d\n", where(regs.Rip), int64(regs.Orig_rax), regs.Rsp, int64(regs.Fs_base-regs.Rsp))
	end := regs.Fs_base
	if tid == d.pid {
		end = d.bottom
	}
	words := slices.Clone(d.read(regs.Rsp, end))
	for i, w := range words {
		if k, ok := d.code.find(w); ok && (k == cuda || i > len(words)-80) {
			fmt.Printf("  %8d from the end: %s\n", 8*(len(words)-i), where(w))
		}
	}
	for i, w := range d.read(regs.Fs_base, regs.Fs_base+threadSize) {
		if s := where(w); s != "" {
			fmt.Printf("  of the thread's own, %#x: %s\n", 8*i, s)
		}
	}
	r := elfsym.Registers{elfsym.RBX: regs.Rbx, elfsym.RBP: regs.Rbp, elfsym.RSP: regs.Rsp, elfsym.R12: regs.R12,
		elfsym.R13: regs.R13, elfsym.R14: regs.R14, elfsym.R15: regs.R15, elfsym.RIP: regs.Rip}
	for depth := range mostFrames {
		at := r[elfsym.RIP] - min(uint64(depth), 1)
		m := procfs.Around(d.code, at)
		fmt.Printf("  up %d: %s\n", depth, where(at))
		if m == nil || m.image(d.pid) == nil {
			return
		}
		address, _ := m.image(d.pid).Address(m.Offset + at - m.From)
		outermost, ok := m.image(d.pid).Up(address, &r, func(a uint64) (uint64, bool) {
			i := (a - regs.Rsp) / 8
			return append(words, 0)[min(i, uint64(len(words)))], i < uint64(len(words))
		})
		if !ok || outermost {
			fmt.Printf("  outermost %t, known %t\n", outermost, ok)
			return
		}
	}
}
