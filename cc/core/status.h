// Status and StatusOr report failure without exceptions.
#ifndef IOS_TF_CC_CORE_STATUS_H_
#define IOS_TF_CC_CORE_STATUS_H_

#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace ios {

enum class StatusCode {
  kOk,
  kInvalidArgument,
  kNotFound,
  kFailedPrecondition,
  kUnimplemented,
  kResourceExhausted,
  kInternal,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status InvalidArgument(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}
inline Status NotFound(std::string message) {
  return Status(StatusCode::kNotFound, std::move(message));
}
inline Status FailedPrecondition(std::string message) {
  return Status(StatusCode::kFailedPrecondition, std::move(message));
}
inline Status Unimplemented(std::string message) {
  return Status(StatusCode::kUnimplemented, std::move(message));
}
inline Status ResourceExhausted(std::string message) {
  return Status(StatusCode::kResourceExhausted, std::move(message));
}
inline Status Internal(std::string message) {
  return Status(StatusCode::kInternal, std::move(message));
}

// Calls `function` and returns its Status or StatusOr, or turns its exception
// into a Status. Libraries throw exceptions when memory or threads run out, but
// an exception must not reach the engine's caller.
template <typename F>
auto CatchExceptions(F&& function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("out of memory");
  } catch (const std::length_error&) {
    return ResourceExhausted("out of memory");
  } catch (const std::system_error& error) {  // no thread could be started
    return ResourceExhausted(error.what());
  } catch (const std::exception& error) {
    return Internal(error.what());
  } catch (...) {
    return Internal("unknown exception");
  }
}

// Contains either a value, or an error that says why there is no value.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(Status status) : status_(std::move(status)) {}  // NOLINT
  StatusOr(T value) : value_(std::move(value)) {}          // NOLINT

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace ios

#define IOS_RETURN_IF_ERROR(expression)        \
  do {                                         \
    ::ios::Status ios_status_ = (expression);  \
    if (!ios_status_.ok()) return ios_status_; \
  } while (0)

#define IOS_CONCAT_INNER_(a, b) a##b
#define IOS_CONCAT_(a, b) IOS_CONCAT_INNER_(a, b)
#define IOS_ASSIGN_OR_RETURN(declaration, expression) \
  IOS_ASSIGN_OR_RETURN_(IOS_CONCAT_(ios_or_, __LINE__), declaration, expression)
#define IOS_ASSIGN_OR_RETURN_(temporary, declaration, expression) \
  auto temporary = (expression);                                  \
  if (!temporary.ok()) return temporary.status();                 \
  declaration = std::move(*temporary)

#endif  // IOS_TF_CC_CORE_STATUS_H_
