// plait board: several runs at once, on the terminal while they train, or as a page.
#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bindings/cli/board/board.hpp"
#include "bindings/cli/board/board_report.hpp"
#include "bindings/cli/board/board_text.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/replaced.hpp"
#include "bindings/cli/terminal/screen.hpp"
#include "bindings/cli/whole_file.hpp"

namespace plait::cli {
namespace {

struct BoardArguments {
  std::vector<std::string> folders, values;
  std::string html;
  bool log = false, once = false;
  std::optional<int> limit;  // 0: all
};

constexpr int kBoardLimit = 20, kBoardChart = 16;  // runs without a window; lines beside them

size_t most_runs(const BoardArguments& arguments) {
  const int limit = arguments.limit.value_or(kBoardLimit);
  return limit > 0 ? static_cast<size_t>(limit) : SIZE_MAX;
}

int write_page(Context& context, const BoardArguments& arguments, const Board& board) {
  const std::string page =
      page_of(board.list(), most_runs(arguments), arguments.values, arguments.log);
  if (print_or_write(context.terminal, arguments.html, page)) return kOk;
  context.terminal.record({{"schema", 1}, {"file", arguments.html}});
  context.terminal.note("wrote " + arguments.html);
  return kOk;
}

std::string no_runs(const Board& board) {
  std::string folders;
  for (const std::string& folder : board.list().folders())
    folders += (folders.empty() ? "" : ", ") + folder;
  return "there are no runs in " + folders + "; plait run FILE makes one";
}

int print_board(Context& context, const BoardArguments& arguments, Board& board) {
  Terminal& t = context.terminal;
  const size_t all = board.list().runs().size();
  BoardLook look;
  look.utf8 = t.utf8();
  look.color = t.colored();
  look.whole_names = true;
  if (const int columns = t.columns(); columns > 0) look.columns = columns;
  size_t rows = std::min(all, most_runs(arguments));
  if (t.rows() > 0 && !arguments.limit && t.human()) {
    look.rows = t.rows() - 1;  // the line behind it is the shell's
    rows = board_rows(all, look);
  } else {
    look.rows = static_cast<int>(std::min<size_t>(rows, 1'000'000)) + kBoardChart;
  }
  board.update(rows);
  if (!arguments.values.empty() && all > 0) {
    const std::set<std::string> names = board.names();
    check_value(arguments.values[0], {names.begin(), names.end()});
  }
  const BoardScreen screen = board.screen();
  t.record(record_of(screen, all));
  if (!t.human()) return kOk;
  if (all == 0) {
    t.line(no_runs(board));
    return kOk;
  }
  std::string text;
  for (const std::string& line : board_lines(screen, look)) text += line + "\n";
  t.raw(text);
  if (rows < all && t.rows() == 0) t.line(strf("%zu of %zu runs; --limit 0 shows all", rows, all));
  return kOk;
}

// Looks for new runs as often as costs about 5 % of a core at most: they are training on this
// machine.
class Scans {
 public:
  explicit Scans(Board& board) : board_(board) {}
  // The folder may be gone for a while, as on a network: then the runs stay as they were.
  void scan_if_due() {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    if (begin < next_) return;
    failure_.clear();
    try {
      board_.scan();
    } catch (const CliError& e) {
      failure_ = e.what();
    }
    const Clock::time_point end = Clock::now();
    next_ = end + std::max<Clock::duration>(std::chrono::seconds(2), 20 * (end - begin));
  }
  const std::string& failure() const { return failure_; }

 private:
  Board& board_;
  std::chrono::steady_clock::time_point next_;
  std::string failure_;
};

std::string keys_text(bool utf8, size_t runs, size_t rows) {
  std::string text = std::string("q quit  ") +
                     (utf8 ? "↑↓" : "arrows") +  // q first: a narrow terminal cuts the end
                     " run  space curve  m value  l logarithmic";
  return rows < runs ? text + strf("  (%zu of %zu runs)", rows, runs) : text;
}

// Until q, Ctrl-C or another signal; returns the signal that must end the process, else 0.
int watch_board(const Terminal& t, Board& board, size_t most) {
  constexpr size_t kSlice = 2 << 20;  // of a file, between two looks at the keys
  Screen window;
  for (Scans scans(board);;) {
    scans.scan_if_due();
    BoardLook look{window.columns(), window.rows(), t.utf8(), t.colored()};
    const size_t runs = board.list().runs().size(), rows = std::min(board_rows(runs, look), most);
    const bool more = board.update(rows, kSlice);
    BoardScreen screen = board.screen();
    screen.message = !scans.failure().empty() ? scans.failure()
                     : runs == 0              ? no_runs(board) + "; q quits"
                                              : keys_text(t.utf8(), runs, rows);
    window.show(board_lines(screen, look));
    const int key = window.wait(more ? 0 : 1);
    if (key == Screen::kOver) return window.signal() == SIGINT ? 0 : window.signal();
    if (key == 'q' || key == 'Q') return 0;
    board.press(key, rows);
  }
}

int show_board(Context& context, BoardArguments arguments) {
  Terminal& t = context.terminal;
  if (arguments.folders.empty()) arguments.folders = {"runs"};
  if (arguments.html.empty() && arguments.values.size() > 1)
    throw CliError(kUsage, "[cli] a terminal shows one --value; --html FILE shows several");
  const size_t limit = arguments.limit ? most_runs(arguments) : SIZE_MAX;
  check_output(context, "board", "--html", arguments.html);
  Board board(arguments.folders, arguments.values.empty() ? "loss" : arguments.values[0],
              arguments.log, limit);
  board.scan();
  if (!arguments.html.empty()) return write_page(context, arguments, board);
  if (arguments.once || t.json || !Screen::possible())
    return print_board(context, arguments, board);
  if (const int ended = watch_board(t, board, limit); ended != 0) {
    std::signal(ended, SIG_DFL);
    std::raise(ended);
  }
  return kOk;
}

}  // namespace

void add_board(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "board", "shows several runs while they train: on the terminal, or as a page");
  const auto arguments = std::make_shared<BoardArguments>();
  verb->add_option("DIR", arguments->folders, "folders of runs, or run directories; default: runs")
      ->type_name("DIR");
  verb->add_option("--value", arguments->values,
                   "whose curves to draw: loss (the default), lr, eval/accuracy and others; with "
                   "--html it may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb->add_flag("--log", arguments->log, "logarithmic y axis");
  verb->add_flag("--once", arguments->once,
                 "prints one screen and ends, as it does without a terminal");
  verb->add_option("--html", arguments->html,
                   "writes a page with the runs and the curves of all values, in place of text; -: "
                   "to standard output")
      ->type_name("FILE");
  verb->add_option("--limit", arguments->limit,
                   "runs of one screen or of the page, and of its curves; 0: all; default: what "
                   "the window has room for, else 20")
      ->type_name("N")
      ->check(whole_number(0));
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return show_board(context, *arguments); };
  });
}

}  // namespace plait::cli
