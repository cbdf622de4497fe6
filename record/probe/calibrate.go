package probe

import (
	"errors"
	"fmt"
	"time"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/probe/callcost"
	"github.com/cudatrace/cudatrace/record/probe/eventstore"
	"github.com/cudatrace/cudatrace/record/probe/recipe"
	"github.com/cudatrace/cudatrace/record/probe/uprobe"
)

// Calibrate measures the cost of a probed call on this machine: a child process calls a
// function that does nothing and is probed like cuLaunchKernel. A program that does more pays
// more, because the probes disturb its caches. Calibrate takes about ten milliseconds and may
// run beside other methods. Its calls are not delivered, and not counted as lost. A call
// that finds the buffers full costs less than one that is recorded: then Calibrate fails.
func (p *Prober) Calibrate() (perCall time.Duration, err error) {
	calls := calibrationCalls(p.layout)
	if calls < 2 {
		return 0, errors.New("the cost of a call is not measured: the buffers are too small")
	}
	perCall, err = callcost.Measure(calls, p.attachCalibration)
	if err == nil {
		err = p.calibrated()
	}
	if err != nil {
		return 0, fmt.Errorf("the cost of a call is not measured: %w", err)
	}
	return perCall, nil
}

// calibrated fails when a call of the calibration was not recorded.
func (p *Prober) calibrated() error {
	lost, err := p.losses.sum(bpf.LostCalibration)
	if err == nil && lost.Count > 0 {
		err = errors.New("the buffers were full")
	}
	return err
}

// calibrationCalls is the number of calls in a round. The calls of all rounds fit into a
// quarter of the buffers.
func calibrationCalls(l eventstore.Layout) uint32 {
	const most, bytes = 256, bpf.HeaderSize + 8*bpf.MaxArgs
	return uint32(min(most, l.Bytes()/4/bytes/callcost.Rounds))
}

// attachCalibration probes the function of the child process.
func (p *Prober) attachCalibration(path string, offset uint64, pid int) (detach func() error, err error) {
	cookie, err := recipe.CalibrationCookie()
	if err != nil {
		return nil, err
	}
	p.events.decoder.Ignore(uint32(pid))
	targets := p.program.maps.targets
	if err := targets.Put(uint32(pid), bpf.ProbesTarget{Range: bpf.TargetCalibration}); err != nil {
		return nil, err
	}
	probes, err := uprobe.Attach(p.program.mode, p.program.calls, path, []uprobe.Site{{Cookie: cookie, Offset: offset}}, pid)
	if err != nil {
		return nil, errors.Join(err, targets.Delete(uint32(pid)))
	}
	return func() error {
		p.processes.background.close(probes)
		return targets.Delete(uint32(pid))
	}, nil
}
