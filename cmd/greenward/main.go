// Command greenward lands the changes of many agents and people on a fast main
// and keeps a green branch that is always releasable. This package owns flags,
// the environment, messages and the wiring of the packages below; it decides
// nothing that they could decide.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"greenward/agents/model"
	"greenward/internal/proc"
)

func main() { os.Exit(start()) }

// start runs the command line that the process was given and gives its exit code.
func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{
		limits: &model.Limits{},
		stdin:  os.Stdin, stdout: os.Stdout, stderr: os.Stderr, now: time.Now,
		host:      crashing(proc.NewHost(os.Environ())),
		ownMounts: func() error { return proc.OwnMounts(os.Args, os.Environ()) },
	}
	// Or a reader that has seen enough would end the process before it clears up. What
	// this process starts has the signal as ever.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	a.stdout = &mouth{to: os.Stdout, gone: a.mute}
	go func() {
		<-ctx.Done()
		stop() // a second interrupt ends the process at once
	}()
	return a.main(ctx, os.Args[1:])
}

// crashing makes the process kill itself at the n-th durable effect when
// GREENWARD_TEST_CRASH says n: the tests of crash safety run the real binary.
func crashing(host proc.Host) proc.Host {
	n, err := parseCount(host.Get("GREENWARD_TEST_CRASH"))
	if err != nil || n == 0 {
		return host
	}
	effects := make(chan int, 1)
	effects <- n
	host.Fault = func(string) {
		left := <-effects - 1
		if left == 0 {
			// Nothing of this process runs on, deferred calls included.
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err == nil {
				select {}
			}
		}
		effects <- left
	}
	return host
}
