package cupti

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestLibraryOfArm64 runs programs of the simulated stack that are built for arm64, in an emulator, with the injected
// library of that processor: each piece of GPU work arrives, with the call that made it.
func TestLibraryOfArm64(t *testing.T) {
	t.Parallel()
	built := os.Getenv("CUDATRACE_SIM_ARM64")
	if built == "" {
		t.Skip("run `make package-test` in the root of the repository")
	}
	emulator, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Fatalf("%v: run `make tools` in the root of the repository", err)
	}
	library := must.Get(os.ReadFile("inject_arm64.so"))(t)
	for _, test := range []struct {
		program         string
		args            []string
		kernels, copies uint64
	}{
		{"vectoradd", nil, 1, 3},
		{"launchloop", []string{"-n", "2000", "-t", "2", "-s", "2", "-k", "2"}, 2000, 0},
	} {
		t.Run(test.program, func(t *testing.T) {
			t.Parallel()
			p := &pairing{tally: newTally(), work: map[uint32]int{}, calls: map[uint32]int{}}
			s := newStage(t, Options{Sink: p, library: library}, GoConfig{Candidates: []Candidate{{Path: filepath.Join(built, "lib/libcupti.so.13")}}})
			s.tally = p.tally
			args := append([]string{"-L", "/usr/aarch64-linux-gnu", filepath.Join(built, "bin", test.program)}, test.args...)
			if _, stderr, code := s.run(t, play{emulator, args, nil}); code != 0 || stderr != "" {
				t.Fatalf("the program printed %q and ended with %d", stderr, code)
			}
			s.checkSim(t, p, test.kernels, test.copies)
			if s.names["cudaLaunchKernel"] == 0 {
				t.Errorf("no launch among %v", s.names)
			}
		})
	}
}
