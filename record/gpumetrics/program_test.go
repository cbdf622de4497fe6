package gpumetrics

import (
	"debug/elf"
	"testing"

	"github.com/cudatrace/cudatrace/record/internal/builttest"
)

// The programs that are committed and embedded.
var programs = builttest.Files{"sampler_amd64.bin": elf.EM_X86_64, "sampler_arm64.bin": elf.EM_AARCH64}

func TestProgramIsOfTheseSources(t *testing.T) {
	t.Parallel()
	programs.OfSources(t, "sampler", "*.c", "*.h", "*.def", "Makefile", "glibc.list")
}

func TestProgramNeedsOldGlibc(t *testing.T) {
	t.Parallel()
	programs.NeedOldGlibc(t)
}

func TestProgramTellsNoPaths(t *testing.T) {
	t.Parallel()
	programs.TellNoPaths(t)
}

// A loader of the system starts the programs: it is where distributions have it.
func TestProgramLoader(t *testing.T) {
	t.Parallel()
	loaders := map[elf.Machine]string{elf.EM_X86_64: "/lib64/ld-linux-x86-64.so.2\x00", elf.EM_AARCH64: "/lib/ld-linux-aarch64.so.1\x00"}
	programs.Each(t, func(t *testing.T, file *elf.File) {
		section := file.Section(".interp")
		if section == nil {
			t.Fatal("it has no loader")
		}
		if got, err := section.Data(); err != nil || string(got) != loaders[file.Machine] {
			t.Errorf("its loader is %q, %v", got, err)
		}
	})
}
