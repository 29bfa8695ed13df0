# soak <minutes>: the tests again and again in changing order, until one fails or the time is over. Sourced by ./dev.
soak() {
  local minutes=$1 round=0
  [[ $minutes =~ ^[0-9]+$ ]] || stop 2 "'$minutes' is no number of minutes" "./dev soak 30"
  need_packages core test
  build dev
  local end=$((SECONDS + minutes * 60))
  while ((SECONDS < end)); do
    run_tests dev --schedule-random --quiet
    round=$((round + 1))
  done
  say "$round rounds without a failure"
}
