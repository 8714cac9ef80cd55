#include "tokenizer/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "base/shadow_memory.h"
#include "fmt/format.h"

namespace tahmin {
namespace {

using Clock = std::chrono::steady_clock;

// What travels through the pipe: this header, then the text.
struct Header {
  char kind;
  uint64_t num_bytes;
};

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(const FileDescriptor&) = delete;
  ~FileDescriptor() { Close(); }
  int number() const { return number_; }
  void Close() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

void SetLimit(int resource, rlim_t value) {
  const rlimit limit{value, value};
  (void)setrlimit(static_cast<__rlimit_resource>(resource), &limit);
}

#ifndef TAHMIN_MAPS_SHADOW_MEMORY
size_t MappedBytes() {
  char text[64] = {};
  const FileDescriptor file(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  if (file.number() < 0 || read(file.number(), text, sizeof(text) - 1) <= 0) return 0;
  return strtoull(text, nullptr, 10) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}
#endif

void LimitSelf(const ChildLimits& limits) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : {SIGPROF, SIGXCPU, SIGPIPE, SIGTERM, SIGSEGV, SIGABRT}) {
    signal(number, SIG_DFL);
  }
  // Ctrl-C reaches the whole foreground group: what it means is the parent's affair.
  signal(SIGINT, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, nullptr);

  SetLimit(RLIMIT_CORE, 0);
  SetLimit(RLIMIT_FSIZE, 0);
  SetLimit(RLIMIT_CPU, static_cast<rlim_t>(std::ceil(limits.cpu_seconds)) + 1);
  // RLIMIT_CPU counts in whole seconds; the profiling timer is the finer one.
  itimerval timer = {};
  timer.it_value.tv_sec = static_cast<time_t>(limits.cpu_seconds);
  timer.it_value.tv_usec =
      static_cast<suseconds_t>((limits.cpu_seconds - std::floor(limits.cpu_seconds)) * 1e6) + 1;
  (void)setitimer(ITIMER_PROF, &timer, nullptr);
#ifndef TAHMIN_MAPS_SHADOW_MEMORY
  SetLimit(RLIMIT_AS, MappedBytes() + limits.memory_bytes);
#endif
}

void WriteAll(int descriptor, const void* bytes, size_t num_bytes) {
  const char* next = static_cast<const char*>(bytes);
  while (num_bytes > 0) {
    const ssize_t written = write(descriptor, next, num_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(1);
    next += written;
    num_bytes -= static_cast<size_t>(written);
  }
}

[[noreturn]] void RunChild(int descriptor, const ChildLimits& limits,
                           const std::function<ChildReply()>& work) {
  LimitSelf(limits);
  // The library never prints: what an interpreter says goes nowhere.
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int stream = 0; stream <= 2 && nowhere >= 0; ++stream) (void)dup2(nowhere, stream);
  const ChildReply reply = work();
  Header header = {};
  header.kind = reply.kind;
  header.num_bytes = reply.text.size();
  WriteAll(descriptor, &header, sizeof(header));
  WriteAll(descriptor, reply.text.data(), reply.text.size());
  _exit(0);
}

// The parent's side: collects the reply, ends the child at a limit, always reaps it.
class Child {
 public:
  Child(pid_t pid, int descriptor, const ChildLimits& limits)
      : pid_(pid), descriptor_(descriptor), limits_(limits) {}
  ~Child() {
    if (is_reaped_) return;
    (void)kill(pid_, SIGKILL);
    while (waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
    }
  }

  absl::StatusOr<ChildReply> Collect() {
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(limits_.wall_seconds));
    while (!IsComplete()) {
      if (Clock::now() >= deadline) {
        return absl::ResourceExhaustedError(
            fmt::format("no answer within {} seconds", limits_.wall_seconds));
      }
      // Once the child is gone, one more read finds all that it wrote.
      const bool was_running = !HasEnded();
      const bool is_open = ReadSome();
      if (received_.size() > sizeof(Header) + kSlackBytes + limits_.output_bytes) {
        return absl::ResourceExhaustedError(
            fmt::format("the output exceeds {} bytes", limits_.output_bytes));
      }
      if (!IsComplete() && (!is_open || !was_running)) return Ending();
    }
    return ChildReply{header().kind, received_.substr(sizeof(Header))};
  }

 private:
  static constexpr size_t kSlackBytes = 4096;  // for a message instead of output

  Header header() const {
    Header header;
    memcpy(&header, received_.data(), sizeof(header));
    return header;
  }
  bool IsComplete() const {
    return received_.size() >= sizeof(Header) &&
           received_.size() - sizeof(Header) >= header().num_bytes;
  }

  bool HasEnded() {
    if (is_reaped_) return true;
    const pid_t ended = waitpid(pid_, &wait_status_, WNOHANG);
    // ECHILD: the program ignores SIGCHLD, so the system has reaped it already.
    is_reaped_ = ended == pid_ || (ended < 0 && errno == ECHILD);
    return is_reaped_;
  }

  // Waits a moment, then takes what is there; false at the end of the stream.
  bool ReadSome() {
    pollfd ready{descriptor_, POLLIN, 0};
    (void)poll(&ready, 1, 20);
    char block[1 << 16];
    while (true) {
      const ssize_t num_bytes = read(descriptor_, block, sizeof(block));
      if (num_bytes < 0) return errno == EAGAIN || errno == EINTR;
      if (num_bytes == 0) return false;
      received_.append(block, static_cast<size_t>(num_bytes));
      if (received_.size() > sizeof(Header) + kSlackBytes + limits_.output_bytes) return true;
    }
  }

  absl::Status Ending() {
    const auto patience = Clock::now() + std::chrono::seconds(1);
    while (!HasEnded() && Clock::now() < patience) usleep(1000);
    if (!is_reaped_ || !WIFSIGNALED(wait_status_)) {
      return absl::ResourceExhaustedError("the renderer ended without an answer");
    }
    const int number = WTERMSIG(wait_status_);
    if (number == SIGPROF || number == SIGXCPU) {
      return absl::ResourceExhaustedError(
          fmt::format("more than {} seconds of processor time", limits_.cpu_seconds));
    }
    return absl::ResourceExhaustedError(
        fmt::format("the renderer was ended by signal {} ({})", number, strsignal(number)));
  }

  pid_t pid_;
  int descriptor_;
  const ChildLimits& limits_;
  std::string received_;
  int wait_status_ = 0;
  bool is_reaped_ = false;
};

}  // namespace

absl::StatusOr<ChildReply> RunInChild(const ChildLimits& limits,
                                      const std::function<ChildReply()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::InternalError(fmt::format("no pipe: {}", strerror(errno)));
  }
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return absl::InternalError(fmt::format("no child process: {}", strerror(errno)));
  if (pid == 0) RunChild(write_end.number(), limits, work);
  write_end.Close();
  (void)fcntl(read_end.number(), F_SETFL, O_NONBLOCK);
  return Child(pid, read_end.number(), limits).Collect();
}

}  // namespace tahmin
