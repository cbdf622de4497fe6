package timeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
)

func factsText(facts []Detail) string {
	var words []string
	for _, f := range facts {
		words = append(words, fmt.Sprintf("%s=%s", f.Name, f.Text))
	}
	return strings.Join(words, "; ")
}

func TestFacts(t *testing.T) {
	t.Parallel()
	log := Metadata{Values: map[string]string{"host": "node", "cwd": "/x", "kernel": ""}, Args: []string{"a", "b"},
		Driver: 13000, Variables: map[string]string{"RANK": "1", "CI": "true"}}
	process := Process{Args: []string{"p"}, Circumstances: Circumstances{Rank: Rank{Number: 0, Of: 2, Known: true}, Folder: "/y", NCCL: "2",
		Variables: map[string]string{"RANK": "0"}}}
	gpu := GPU{Multiprocessors: 132, Limits: Limits{MaxBlocks: 32}, Link: Link{Address: "0000:18:00.0", Generation: 1, MaxGeneration: 5, Width: 16}}
	for got, want := range map[string]string{
		factsText(log.Facts()):           "cwd=/x; host=node; args=a b; cuda_driver_version=13.0; env CI=true; env RANK=1",
		factsText(process.Facts()):       "rank=0; local_rank=0; world_size=2; args=p; cwd=/y; nccl=2; env RANK=0",
		factsText(gpu.Facts()):           "multiprocessors=132; max_blocks=32; pcie_generation=5; pcie_width=16; pci=0000:18:00.0",
		factsText(new(Process).Facts()):  "",
		factsText(new(Metadata).Facts()): "",
	} {
		goldentest.Same(t, want, got, "result")
	}
}
