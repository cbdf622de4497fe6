package gpumetrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/goldentest"
)

// orders collects what a sampler is told.
func orders(t *testing.T, o func(*Options)) (g *gpus, r *recorder, got *[]string) {
	r, got = newRecorder(t), new([]string)
	options := r.options()
	options.now, options.time = func() uint64 { return 1e9 }, func(at uint64) uint64 { return at }
	o(&options)
	names := map[uint32]string{orderStart: "start", orderStop: "stop"}
	return newGPUs(options, func(kind, index uint32) { *got = append(*got, fmt.Sprint(names[kind], " ", index)) }, func(kind, index uint32) { *got = append(*got, fmt.Sprint("count ", names[kind], " ", index)) }), r, got
}

// give takes messages in, which must be right.
func give(t *testing.T, g *gpus, messages ...[]byte) {
	t.Helper()
	for _, b := range messages {
		m, err := parse(b)
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case device:
			err = g.addGPU(m)
		case set:
			err = g.set(m, false)
		case rows:
			err = g.rows(m)
		case gap:
			err = g.gap(m)
		case processes:
			err = g.processes(m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func row(set uint32, start, end int, value float64) []byte {
	return words(msgRows, set, uint32(1), start, end, value)
}

// A GPU that no recorded process uses is sampled for a time only, and nothing of it is logged. What came
// before the first context is.
func TestTrial(t *testing.T) {
	t.Parallel()
	g, r, got := orders(t, func(*Options) {})
	give(t, g, deviceMessage(0, 0), deviceMessage(1, 0))
	g.beginSampling()
	give(t, g, setMessage(1, 0, "power"), setMessage(5, 1, "power"), row(1, 10, 20, 1), row(5, 10, 20, 2))
	g.context(uuidOf(1), 0)
	give(t, g, row(5, 20, 30, 3))
	g.expire(time.Now())
	want := []string{"start 0", "start 1"}
	g.expire(time.Now().Add(2 * trial))
	give(t, g, row(1, 20, 30, 1), words(msgLost, uint32(1), uint32(0), 30, 40)) // on the way when it was told to stop
	g.beginSampling()
	give(t, g, setMessage(1, 0, "power"))
	g.end()
	goldentest.Same(t, append(want, "stop 0", "start 0"), sorted(*got, 2), "orders")
	c := r.read()
	if points := c.series(t, uuidOf(1), "power"); len(c.sets) != 1 || len(points) != 2 || points[0].value != 2 || points[1].end != 30 {
		t.Errorf("%d sets, values %v", len(c.sets), points)
	}
}

// sorted puts the first n orders, those of a map, in order.
func sorted(orders []string, n int) []string {
	if len(orders) >= n && orders[0] > orders[1] {
		orders[0], orders[1] = orders[1], orders[0]
	}
	return orders
}

// The only GPU of a machine is the one that is used, where nothing tells.
func TestGuess(t *testing.T) {
	t.Parallel()
	for _, devices := range []uint32{1, 2} {
		g, r, _ := orders(t, func(*Options) {})
		for i := range devices {
			give(t, g, deviceMessage(i, 0))
		}
		g.beginSampling()
		give(t, g, setMessage(1, 0, "power"), row(1, 10, 20, 1))
		g.expire(time.Now())
		if g.all[0].used {
			t.Error("the GPU counts as used before its trial is over")
		}
		g.end()
		if c := r.read(); (len(c.sets) == 1) != (devices == 1) || r.told("--gpu-metrics-devices all") != (devices == 2) {
			t.Errorf("%d GPUs: %d sets, notes %q", devices, len(c.sets), r.notes)
		}
	}
}

// All GPUs are logged where a person asked for that.
func TestAll(t *testing.T) {
	t.Parallel()
	g, r, _ := orders(t, func(o *Options) { o.All = true })
	give(t, g, deviceMessage(0, 0), deviceMessage(1, 0))
	g.beginSampling()
	give(t, g, setMessage(1, 0, "power"), setMessage(5, 1, "power"))
	g.expire(time.Now().Add(2 * trial))
	g.end()
	if c := r.read(); len(c.sets) != 2 {
		t.Errorf("%d sets", len(c.sets))
	}
}

// Nothing is sampled before a process uses CUDA, even where contexts are known.
func TestDelay(t *testing.T) {
	t.Parallel()
	g, _, got := orders(t, func(*Options) {})
	g.context(uuidOf(0), 0)
	give(t, g, deviceMessage(0, 0))
	if len(*got) > 0 || !g.all[0].used {
		t.Errorf("orders are %q", *got)
	}
	g.beginSampling()
	goldentest.Same(t, []string{"start 0"}, *got, "orders")
}

// Rows with odd times or numbers are refused.
func TestRefused(t *testing.T) {
	t.Parallel()
	g, _, _ := orders(t, func(*Options) {})
	give(t, g, deviceMessage(0, 0))
	g.beginSampling()
	give(t, g, setMessage(1, 0, "power"), row(1, 10, 20, 1))
	for _, b := range [][]byte{
		row(1, 15, 25, 1), row(1, 30, 25, 1), row(1, 30, 3e9, 1), row(2, 30, 40, 1),
		words(msgRows, uint32(1), uint32(2), 30, 40, 1.5), words(msgLost, uint32(1), uint32(0), 10, 15),
	} {
		m, err := parse(b)
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case rows:
			err = g.rows(m)
		case gap:
			err = g.gap(m)
		}
		if err == nil {
			t.Errorf("%q is taken", b)
		}
	}
}
