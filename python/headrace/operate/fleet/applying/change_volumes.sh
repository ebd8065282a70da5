# What every script of changes does; `headrace fleet report --patch` puts the settings in front of it
# and the changes behind it. For bash 3.2 and newer, the AWS CLI 1 and 2, Linux and macOS.

usage() {
  cat <<TEXT
Usage: $(basename "$0") [--dry-run] [--max-per-hour N] [--until completed|optimizing] [--log FILE]

Changes $CHANGES volumes of Amazon EBS, one after the other, and waits for each.
  --dry-run          look, and print the commands; change nothing
  --max-per-hour N   begin at most N changes in an hour, counted over all runs (now $max_per_hour)
  --until STATE      wait for each until it is completed (as a rule hours), or only until it is
                     optimizing, when its new limits begin to hold (now $until_state)
  --log FILE         what was done, a line each (now $log)
Stop it with Ctrl-C and run it again whenever you like: what is done already is left as it is.
Variables: AWS, the AWS CLI to run; POLL_S, seconds between two looks; SETTLE_S, how long EC2 may show what was before.
Exit codes: 0 all as planned, 1 some volumes were refused, 2 usage, 3 stopped at a failure, 130 stopped.
TEXT
}

told() { printf '%s\n' "$*" >&2; }

note() { # WHAT VOLUME DETAIL: a line of the log
  [ "$dry_run" = yes ] || printf '%s\t%s\t%s\t%s\n' "$(date +%s)" "$1" "$2" "$3" >>"$log"
}

fail() {
  told "FAILED: $*"
  told "Stopped: $done_count changed, $same_count as planned already, $refused_count refused, of $CHANGES. Nothing after it was tried."
  exit 3
}

refuse() { # VOLUME WHY
  refused_count=$((refused_count + 1))
  told "$1: REFUSED, $2"
  note refused "$1" "$2"
}

ec2() { # REGION WORDS...
  local region="$1"
  shift
  "$AWS_CLI" ec2 "$@" --region "$region" --output text
}

look() { # VOLUME REGION: sets now_type now_size now_iops now_mib_s now_state
  local line
  line="$(ec2 "$2" describe-volumes --filters "Name=volume-id,Values=$1" \
    --query 'Volumes[].[VolumeType,Size,Iops,Throughput,State]')" || fail "$1 cannot be looked at (see above)"
  line="${line%%$'\n'*}"
  now_type="" now_size="" now_iops="" now_mib_s="" now_state="gone"
  [ -z "$line" ] || [ "$line" = None ] || read -r now_type now_size now_iops now_mib_s now_state <<<"$line"
}

look_at_change() { # VOLUME REGION: sets change_state change_start change_type change_size change_iops change_mib_s
  local line
  line="$(ec2 "$2" describe-volumes-modifications --filters "Name=volume-id,Values=$1" \
    --query 'VolumesModifications[].[ModificationState,StartTime,TargetVolumeType,TargetSize,TargetIops,TargetThroughput]')" ||
    fail "the last modification of $1 cannot be looked at (see above)"
  line="${line%%$'\n'*}"
  change_state=none change_start="" change_type="" change_size="" change_iops="" change_mib_s=""
  [ -z "$line" ] || [ "$line" = None ] ||
    read -r change_state change_start change_type change_size change_iops change_mib_s <<<"$line"
}

same() { # TYPE SIZE IOPS MIB_S, twice; what is "-" on the right is not bought and not compared
  [ "$1" = "$5" ] && [ "$2" = "$6" ] && { [ "$7" = - ] || [ "$3" = "$7" ]; } && { [ "$8" = - ] || [ "$4" = "$8" ]; }
}

words() { # TYPE SIZE IOPS MIB_S in words
  local text="$1 $2 GiB"
  case "$3" in - | None | "") ;; *) text="$text $3 IOPS" ;; esac
  case "$4" in - | None | "") ;; *) text="$text $4 MiB/s" ;; esac
  printf '%s' "$text"
}

utc() { # EPOCH as EC2 writes it, without its end
  date -u -d "@$1" +%Y-%m-%dT%H:%M:%S 2>/dev/null || date -u -r "$1" +%Y-%m-%dT%H:%M:%S
}

recent_changes() { # VOLUME KNOWN: how many modifications began in the window, of all that are known
  local since
  since="$(utc $(($(date +%s) - WINDOW_H * 3600)))"
  {
    printf '%s\n' "$2" | tr ',' '\n'
    printf '%s\n' "$change_start"
    awk -F '\t' -v volume="$1" '$2 == "accepted" && $3 == volume { print $4 }' "$log"
  } | cut -c 1-19 | awk -v since="$since" 'length($0) == 19 && $0 > since' | sort -u | grep -c . || true
}

keep_pace() {
  local begun said=no
  while :; do
    begun="$(awk -F '\t' -v since="$(($(date +%s) - 3600))" '$2 == "asked" && $1 > since' "$log" | grep -c . || true)"
    [ "$begun" -ge "$max_per_hour" ] || return 0
    [ "$said" = yes ] || told "Waiting: $begun changes were begun within the hour, and --max-per-hour is $max_per_hour."
    said=yes
    sleep "$POLL_S"
  done
}

wait_for() { # VOLUME REGION
  local accepted asked
  accepted="$(awk -F '\t' -v volume="$1" '$2 == "accepted" && $3 == volume { at = $4 } END { print substr(at, 1, 19) }' "$log")"
  asked="$(date +%s)"
  while :; do
    look_at_change "$1" "$2"
    # What EC2 has just taken it may not show at once (EC2 API, "Eventual consistency").
    if [[ "${change_start:0:19}" < "$accepted" ]] && [ "$(($(date +%s) - asked))" -lt "$SETTLE_S" ]; then
      sleep "$POLL_S"
      continue
    fi
    case "$change_state" in
      completed) return 0 ;;
      optimizing) [ "$until_state" = completed ] || return 0 ;;
      modifying) ;;
      *) fail "the modification of $1 is in state $change_state" ;;
    esac
    sleep "$POLL_S"
  done
}

settled() { # VOLUME REGION TYPE SIZE IOPS MIB_S: whether it is so, which EC2 may show a moment later
  local asked
  asked="$(date +%s)"
  while :; do
    look "$1" "$2"
    same "$now_type" "$now_size" "$now_iops" "$now_mib_s" "${@:3:4}" && return 0
    [ "$(($(date +%s) - asked))" -lt "$SETTLE_S" ] || return 1
    sleep "$POLL_S"
  done
}

ask() { # VOLUME REGION TYPE SIZE IOPS MIB_S; the words of the call are the lines below
  local command said errors
  command=(modify-volume --volume-id "$1" --volume-type "$3")
  [ "$4" = "$now_size" ] || command+=(--size "$4")
  [ "$5" = - ] || command+=(--iops "$5")
  [ "$6" = - ] || command+=(--throughput "$6")
  if [ "$dry_run" = yes ]; then
    printf 'aws ec2'
    printf ' %q' "${command[@]}" --region "$2"
    printf '\n'
    return 1
  fi
  keep_pace
  note asked "$1" "$(words "$3" "$4" "$5" "$6")"
  errors="$(mktemp)"
  if ! said="$(ec2 "$2" "${command[@]}" --query 'VolumeModification.StartTime' 2>"$errors")"; then
    cat "$errors" >&2
    if grep -qE 'VolumeModificationRateExceeded|IncorrectModificationState' "$errors"; then
      rm -f "$errors"
      refuse "$1" "EC2 takes no modification of it now (see above)"
      return 1
    fi
    rm -f "$errors"
    fail "EC2 refuses to modify $1 (see above)"
  fi
  rm -f "$errors"
  note accepted "$1" "$said"
}

change() { # VOLUME REGION, TYPE SIZE IOPS MIB_S before and after, USD a month saved, starts known
  local volume="$1" region="$2" target
  target="$(words "$7" "$8" "$9" "${10}")"
  number=$((number + 1))
  look "$volume" "$region"
  look_at_change "$volume" "$region"
  case "$now_state" in
    in-use | available) ;;
    *) refuse "$volume" "it is in state $now_state" && return 0 ;;
  esac
  case "$change_state" in
    modifying | optimizing)
      if ! same "$change_type" "$change_size" "$change_iops" "$change_mib_s" "${@:7:4}"; then
        refuse "$volume" "it is $change_state another change: $(words "$change_type" "$change_size" "$change_iops" "$change_mib_s")"
        return 0
      fi
      told "[$number/$CHANGES] $volume: on its way to $target already"
      [ "$dry_run" = yes ] || wait_for "$volume" "$region"
      same_count=$((same_count + 1))
      return 0
      ;;
  esac
  if same "$now_type" "$now_size" "$now_iops" "$now_mib_s" "${@:7:4}"; then
    told "[$number/$CHANGES] $volume: is $target already"
    same_count=$((same_count + 1))
    return 0
  fi
  if ! same "$now_type" "$now_size" "$now_iops" "$now_mib_s" "${@:3:4}"; then
    refuse "$volume" "it is $(words "$now_type" "$now_size" "$now_iops" "$now_mib_s") now, and the plan was made for $(words "${@:3:4}")"
    return 0
  fi
  if [ "$8" -lt "$now_size" ]; then
    refuse "$volume" "a volume never shrinks, and it has $now_size GiB"
    return 0
  fi
  if [ "$(recent_changes "$volume" "${12}")" -ge "$MAX_CHANGES" ]; then
    refuse "$volume" "it was modified $MAX_CHANGES times within $WINDOW_H hours, which is as often as EC2 allows"
    return 0
  fi
  told "[$number/$CHANGES] $volume: $(words "${@:3:4}") -> $target, ${11} USD a month"
  ask "$volume" "$region" "${@:7:4}" || return 0
  wait_for "$volume" "$region"
  settled "$volume" "$region" "${@:7:4}" ||
    fail "$volume is $(words "$now_type" "$now_size" "$now_iops" "$now_mib_s") after its change, not $target"
  done_count=$((done_count + 1))
  note changed "$volume" "$target"
}

leave() {
  [ "$(cat "$log.pid" 2>/dev/null || true)" != "$$" ] || rm -f "$log.pid"
}

begin() {
  local account other
  dry_run=no max_per_hour="$MAX_PER_HOUR" until_state=completed log="${0%.sh}.log"
  done_count=0 same_count=0 refused_count=0 number=0
  while [ $# -gt 0 ]; do
    case "$1" in
      --dry-run) dry_run=yes ;;
      --help | -h) usage && exit 0 ;;
      --max-per-hour | --until | --log)
        [ $# -ge 2 ] || { told "error: $1 needs a value." && exit 2; }
        case "$1" in
          --max-per-hour) max_per_hour="$2" ;;
          --until) until_state="$2" ;;
          --log) log="$2" ;;
        esac
        shift
        ;;
      *) told "error: $1 is not an option. See --help." && exit 2 ;;
    esac
    shift
  done
  case "$max_per_hour" in
    "" | *[!0-9]* | 0*) told "error: --max-per-hour $max_per_hour: must be a whole number from 1." && exit 2 ;;
  esac
  case "$until_state" in
    completed | optimizing) ;;
    *) told "error: --until $until_state: must be completed or optimizing." && exit 2 ;;
  esac
  command -v "$AWS_CLI" >/dev/null || { told "error: $AWS_CLI is not here. Install the AWS CLI, or set AWS to its path." && exit 3; }
  [ "$dry_run" = no ] || [ -e "$log" ] || log=/dev/null
  touch "$log" || { told "error: the log $log cannot be written. Name another with --log." && exit 3; }
  if [ "$dry_run" = no ]; then
    other="$(cat "$log.pid" 2>/dev/null || true)"
    if [ -n "$other" ] && kill -0 "$other" 2>/dev/null; then
      told "error: process $other works on these changes already (see $log.pid). Wait for it, or stop it."
      exit 3
    fi
    printf '%s\n' "$$" >"$log.pid"
    trap leave EXIT
    trap 'told "Stopped. Run it again to go on; what EC2 has begun it ends."; exit 130' INT TERM HUP
  fi
  if [ -n "$ACCOUNT" ]; then
    account="$("$AWS_CLI" sts get-caller-identity --query Account --output text)" || fail "the account is not known (see above)"
    [ "$account" = "$ACCOUNT" ] || fail "these are volumes of account $ACCOUNT, and the credentials are of $account"
  fi
}

finish() {
  [ "$dry_run" = yes ] && told "Nothing was changed (--dry-run)."
  told "$done_count changed, $same_count as planned already, $refused_count refused, of $CHANGES."
  [ "$refused_count" = 0 ] || exit 1
}
