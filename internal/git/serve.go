package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"greenward/internal/proc"
)

// Services of git's http protocol.
const (
	UploadPack  = "git-upload-pack"
	ReceivePack = "git-receive-pack"
)

// maxPush is the most that one push may bring, in bytes.
const maxPush = 512 << 20

// ServeInput is one request of git's stateless http protocol.
type ServeInput struct {
	Service   string // UploadPack or ReceivePack
	Advertise bool   // the list of refs is asked
	Protocol  string // the Git-Protocol header
	Forward   bool   // no branch may be moved backwards
	In        io.Reader
	Out       io.Writer
}

// Serve answers one request. Who may ask for what is the caller's decision; no
// hook of the repository runs.
func (r *Repo) Serve(ctx context.Context, in ServeInput) error {
	if in.Service != UploadPack && in.Service != ReceivePack {
		return fmt.Errorf("serve %q: %w", in.Service, ErrUnsupported)
	}
	args := []string{"--no-replace-objects", "--git-dir=" + r.dir}
	for _, setting := range settings() {
		args = append(args, "-c", setting)
	}
	args = append(args, "-c", "receive.autogc=false", "-c", "receive.fsckObjects=true", "-c", fmt.Sprintf("receive.maxInputSize=%d", maxPush),
		"-c", "receive.denyCurrentBranch=ignore", "-c", fmt.Sprintf("receive.denyNonFastForwards=%t", in.Forward), in.Service[len("git-"):], "--stateless-rpc")
	if in.Advertise {
		args = append(args, "--http-backend-info-refs")
	}
	env := r.environment(call{})
	if slices.Contains([]string{"version=1", "version=2"}, in.Protocol) && in.Service == UploadPack {
		env = append(env, "GIT_PROTOCOL="+in.Protocol)
	}
	stderr := proc.NewCapture(2<<10, 2<<10, nil)
	result, err := proc.Run(ctx, proc.Command{
		Name: "git", Args: append(args, r.dir), Dir: r.dir, Env: env, Stdin: in.In, Stdout: in.Out, Stderr: stderr, Timeout: remoteTime,
		Survive: in.Service == ReceivePack && !in.Advertise,
	})
	if err != nil {
		return fmt.Errorf("serve %s: %w", in.Service, err)
	}
	if !result.OK() {
		return errors.Join(fmt.Errorf("serve %s: %s", in.Service, result), errors.New(OneLine(stderr.String())))
	}
	return nil
}
