package convert_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// kernelCount is a sink that counts kernels by stream.
type kernelCount map[uint32]int

func (c kernelCount) Take(events []timeline.Event) error {
	for _, e := range events {
		if work, ok := e.(*timeline.WorkList); ok {
			for _, w := range work.List {
				if w.Kind == timeline.KernelWork {
					c[work.Stream.ID]++
				}
			}
		}
	}
	return nil
}

func (c kernelCount) End(err error) error { return err }

func ExampleTimeline() {
	kernels := make(kernelCount)
	logs := []convert.Log{convert.Path("../testdata/gpu/logs/streams.cudatrace")}
	if _, err := convert.Timeline(logs, convert.Options{}, kernels); err != nil {
		fmt.Println(err)
	}
	for _, id := range slices.Sorted(maps.Keys(kernels)) {
		fmt.Printf("stream %d: %d kernels\n", id, kernels[id])
	}
	// Output:
	// stream 13: 60 kernels
	// stream 14: 60 kernels
	// stream 15: 60 kernels
}
